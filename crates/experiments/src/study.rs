//! What an experiment found: checks, tables, figures, notes.

use serde::Serialize;

/// The findings of one experiment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Study {
    /// What must hold, and whether it does.
    pub checks: Vec<Check>,
    /// The paper's numbers beside ours.
    pub tables: Vec<Table>,
    /// What differs from the paper's set-up, and why.
    pub notes: Vec<String>,
    /// The seeds of the runs.
    pub seeds: Vec<u64>,
    /// Figures; the first one is `ID.svg`.
    #[serde(skip)]
    pub figures: Vec<Figure>,
}

/// Something that must hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What, in words.
    pub law: String,
    /// What was found, with units.
    pub found: String,
    /// Whether it holds.
    pub holds: bool,
    /// By how much it is kept or missed, in the unit of the law: negative if it is missed.
    pub margin: f64,
    /// If it does not hold: why, as far as is known.
    pub reason: Option<String>,
}

/// Numbers side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Headings, with units.
    pub heads: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<String>>,
}

/// A drawn figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its title.
    pub title: String,
    /// The SVG document.
    pub svg: String,
}

impl Study {
    /// Whether every check holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }

    /// Adds a check.
    pub fn check(&mut self, check: Check) -> &mut Self {
        self.checks.push(check);
        self
    }

    /// Adds a table.
    pub fn table(&mut self, title: &str, heads: &[&str], rows: Vec<Vec<String>>) -> &mut Self {
        let heads = heads.iter().map(|&head| head.to_owned()).collect();
        self.tables.push(Table { title: title.to_owned(), heads, rows });
        self
    }

    /// Adds a note.
    pub fn note(&mut self, note: impl Into<String>) -> &mut Self {
        self.notes.push(note.into());
        self
    }
}

impl Check {
    /// `value` must be at most `bound`; both in `unit`.
    #[must_use]
    pub fn at_most(law: impl Into<String>, value: f64, bound: f64, unit: &str) -> Self {
        Self::new(law, format!("{} {unit}, at most {} {unit}", number(value), number(bound)), bound - value)
    }

    /// `value` must be at least `bound`; both in `unit`.
    #[must_use]
    pub fn at_least(law: impl Into<String>, value: f64, bound: f64, unit: &str) -> Self {
        Self::new(law, format!("{} {unit}, at least {} {unit}", number(value), number(bound)), value - bound)
    }

    /// `value` must lie within `tolerance` of `expected`; all in `unit`.
    #[must_use]
    pub fn near(law: impl Into<String>, value: f64, expected: f64, tolerance: f64, unit: &str) -> Self {
        let found =
            format!("{} {unit}, expected {} ± {} {unit}", number(value), number(expected), number(tolerance));
        Self::new(law, found, tolerance - (value - expected).abs())
    }

    /// `value` must lie within `percent` of `expected`.
    #[must_use]
    pub fn within_percent(
        law: impl Into<String>,
        value: f64,
        expected: f64,
        percent: f64,
        unit: &str,
    ) -> Self {
        let off = 100.0 * (value - expected) / expected;
        let found = format!(
            "{} {unit} for {} {unit}: {} % off, at most {} %",
            number(value),
            number(expected),
            number(off),
            number(percent)
        );
        Self::new(law, found, percent - off.abs())
    }

    /// Something that holds or does not.
    #[must_use]
    pub fn that(law: impl Into<String>, holds: bool, found: impl Into<String>) -> Self {
        let margin = if holds { 0.0 } else { -1.0 };
        Self { holds, ..Self::new(law, found.into(), margin) }
    }

    /// Says why it does not hold, if it does not.
    #[must_use]
    pub fn because(mut self, reason: &str) -> Self {
        if !self.holds {
            self.reason = Some(reason.to_owned());
        }
        self
    }

    fn new(law: impl Into<String>, found: String, margin: f64) -> Self {
        // A margin that is no number comes from a value that is none: that is no success.
        let margin = if margin.is_nan() { f64::NEG_INFINITY } else { margin };
        Self { law: law.into(), found, holds: margin >= 0.0, margin, reason: None }
    }
}

/// A number for people: four significant digits, or none behind the point where it is large.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if !value.is_finite() || size >= 1000.0 || size == 0.0 => 0,
        _ if size >= 100.0 => 1,
        _ if size >= 10.0 => 2,
        _ if size >= 1.0 => 3,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_hold_up_to_their_bounds() {
        assert!(Check::at_most("", 5.0, 5.0, "ms").holds);
        assert!(!Check::at_most("", 5.1, 5.0, "ms").holds);
        assert!(Check::at_least("", 5.0, 5.0, "ms").holds);
        assert!(!Check::near("", 5.2, 5.0, 0.1, "ms").holds);
        assert!(Check::within_percent("", 101.0, 100.0, 1.0, "IOPS").holds);
        assert!(!Check::within_percent("", 98.9, 100.0, 1.0, "IOPS").holds);
        assert!(!Check::at_most("", f64::NAN, 5.0, "ms").holds, "what is no number holds nothing");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.12345, 1.23456, 12.3456, 123.456, 1234.56, 5.0, -0.5].map(number),
            ["0", "0.1235", "1.235", "12.35", "123.5", "1235", "5", "-0.5"]
        );
    }
}
