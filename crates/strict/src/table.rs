//! Walking a TOML table: every key is asked for by name, every value is read by kind, what is left
//! over is unknown. Problems are collected, so that one run shows them all.
//!
//! ```text
//!  [store.pool]          Table "store.pool"
//!  depth = 32      ──>   take("depth") ──> Item ──> whole(1..=32768) ──> Some(32) | None + Problem
//!  detph = 64      ──>   finish()      ──> Problem: unknown key; did you mean `depth`?
//! ```

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use evenkeel_core::{Cost, Rate, Span};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::{ConfigError, Problem};
use crate::suggest::about_unknown_key;
use crate::values::{self, Fault, Quantity};

/// Collects problems.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order in which they were found.
    pub problems: Vec<Problem>,
}

impl Report {
    /// Adds a problem.
    pub fn add(
        &mut self,
        span: Range<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.problems.push(Problem { span, key: key.into(), message: message.into(), remedy: remedy.into() });
    }
}

/// One table of the file.
pub struct Table<'t> {
    /// Its path, `volume.db.sla`; empty for the root.
    pub key: String,
    /// Where its name stands.
    pub header: Range<usize>,
    entries: Vec<Entry<'t>>,
    /// Every name that was asked for: the known keys.
    asked: Vec<&'static str>,
}

struct Entry<'t> {
    name: &'t str,
    name_span: Range<usize>,
    value: &'t Spanned<DeValue<'t>>,
    taken: bool,
}

/// One value with its place.
pub struct Item<'t> {
    /// The key with its path.
    pub key: String,
    /// Where the key stands.
    pub key_span: Range<usize>,
    /// Where the value stands.
    pub span: Range<usize>,
    /// The value itself.
    pub value: &'t DeValue<'t>,
}

impl<'t> Table<'t> {
    /// A table of this path, whose name stands at `header`.
    pub fn new(key: String, header: Range<usize>, table: &'t DeTable<'t>) -> Self {
        let mut entries: Vec<_> = table
            .iter()
            .map(|(name, value)| Entry { name: name.get_ref(), name_span: name.span(), value, taken: false })
            .collect();
        // The parser sorts by name; users think in the order of their file.
        entries.sort_by_key(|entry| entry.name_span.start);
        Self { key, header, entries, asked: Vec::new() }
    }

    /// The value of `name`, if it is there.
    pub fn take(&mut self, name: &'static str) -> Option<Item<'t>> {
        self.asked.push(name);
        let entry = self.entries.iter_mut().find(|entry| entry.name == name)?;
        entry.taken = true;
        Some(item(&self.key, entry))
    }

    /// The value of `name`; a problem with this remedy if it is not there.
    pub fn require(
        &mut self,
        report: &mut Report,
        name: &'static str,
        remedy: impl Into<String>,
    ) -> Option<Item<'t>> {
        let found = self.take(name);
        if found.is_none() {
            report.add(self.header.clone(), child_key(&self.key, name), "the key is missing", remedy);
        }
        found
    }

    /// All values, for tables whose keys are names that users choose.
    pub fn take_all(&mut self) -> Vec<(&'t str, Item<'t>)> {
        self.entries
            .iter_mut()
            .map(|entry| {
                entry.taken = true;
                (entry.name, item(&self.key, entry))
            })
            .collect()
    }

    /// Whether `name` is there; that alone does not make it a known key.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name)
    }

    /// Reports a problem with the value of `name`, or with the table if it is not there.
    pub fn refuse(
        &self,
        report: &mut Report,
        name: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        let span = entry.map_or(self.header.clone(), |entry| entry.value.span());
        report.add(span, child_key(&self.key, name), message, remedy);
    }

    /// Reports every key that nothing asked for.
    pub fn finish(self, report: &mut Report) {
        for entry in self.entries.iter().filter(|entry| !entry.taken) {
            let key = child_key(&self.key, entry.name);
            let fault = about_unknown_key(entry.name, &self.asked);
            report.add(entry.name_span.clone(), key, fault.message, fault.remedy);
        }
    }
}

impl<'t> Item<'t> {
    /// Reports a problem with the value.
    pub fn refuse(&self, report: &mut Report, message: impl Into<String>, remedy: impl Into<String>) {
        report.add(self.span.clone(), self.key.clone(), message, remedy);
    }

    /// Reports the problems of the other file that the value names, each with its place there.
    pub fn refuse_other(&self, report: &mut Report, error: &ConfigError) {
        for problem in &error.problems {
            let (line, column) = error.line_column(problem);
            let key = if problem.key.is_empty() { String::new() } else { format!("{}: ", problem.key) };
            let message = format!("{}:{line}:{column}: {key}{}", error.file.display(), problem.message);
            self.refuse(report, message, problem.remedy.clone());
        }
    }

    /// A text in quotes.
    pub fn text(&self, report: &mut Report) -> Option<&'t str> {
        match self.value {
            DeValue::String(text) => Some(text),
            other => {
                self.refuse(report, format!("a text is needed, not {}", kind(other)), "put it in quotes");
                None
            }
        }
    }

    /// True or false.
    pub fn flag(&self, report: &mut Report) -> Option<bool> {
        match self.value {
            DeValue::Boolean(flag) => Some(*flag),
            other => {
                let message = format!("true or false is needed, not {}", kind(other));
                self.refuse(report, message, "write true or false, without quotes");
                None
            }
        }
    }

    /// A whole number within `range`.
    pub fn whole(&self, report: &mut Report, range: RangeInclusive<u32>) -> Option<u32> {
        let remedy = format!("write a whole number from {} to {}", range.start(), range.end());
        let DeValue::Integer(integer) = self.value else {
            let remedy = format!("{remedy}, without quotes");
            self.refuse(report, format!("a whole number is needed, not {}", kind(self.value)), remedy);
            return None;
        };
        let number = u32::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            self.refuse(report, format!("{integer} is out of range"), remedy);
        }
        number
    }

    /// A number of requests, whole or with up to three decimals.
    pub fn requests(&self, report: &mut Report) -> Option<Cost> {
        let text = match self.value {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            DeValue::Float(float) => float.as_str(),
            other => {
                let message = format!("a number of requests is needed, not {}", kind(other));
                self.refuse(report, message, "write a plain number without quotes or unit, as 20");
                return None;
            }
        };
        match values::requests(text) {
            Ok(requests) => Some(requests),
            Err(fault) if fault.message.contains("finer") => self.fault(report, fault),
            Err(_) => {
                let message = format!("{text} is not a number of requests");
                self.refuse(report, message, "write a plain number above 0, such as 20");
                None
            }
        }
    }

    /// A time with its unit: `"100 ms"`.
    pub fn time(&self, report: &mut Report) -> Option<Span> {
        self.quantity(report, &values::TIME, values::span)
    }

    /// A number of bytes with its unit: `"1 GiB"`.
    pub fn bytes(&self, report: &mut Report) -> Option<u64> {
        self.quantity(report, &values::BYTES, values::bytes)
    }

    /// A rate with its unit: `"200 IOPS"`.
    pub fn rate(&self, report: &mut Report) -> Option<Rate> {
        self.quantity(report, &values::RATE, values::rate)
    }

    /// A bandwidth with its unit, in bytes per second: `"160 MB/s"`.
    pub fn bandwidth(&self, report: &mut Report) -> Option<u64> {
        self.quantity(report, &values::BANDWIDTH, values::bandwidth)
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, report: &mut Report, choices: &[(&'static str, T)]) -> Option<T> {
        let text = self.text(report)?;
        let found = choices.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice);
        if found.is_none() {
            let words: Vec<_> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            self.refuse(
                report,
                format!("{text:?} is not known here"),
                format!("write {}", words.join(" or ")),
            );
        }
        found
    }

    /// Whether it is a text.
    pub const fn is_text(&self) -> bool {
        matches!(self.value, DeValue::String(_))
    }

    /// Whether it is a list.
    pub const fn is_list(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    /// Whether it is a table.
    pub const fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    /// A table, inline or with a header of its own.
    pub fn table(&self, report: &mut Report, remedy: &str) -> Option<Table<'t>> {
        match self.value {
            DeValue::Table(table) => Some(Table::new(self.key.clone(), self.key_span.clone(), table)),
            other => {
                self.refuse(report, format!("a table is needed, not {}", kind(other)), remedy);
                None
            }
        }
    }

    /// The elements of a list, each with its own place.
    pub fn list(&self, report: &mut Report, remedy: &str) -> Option<Vec<Item<'t>>> {
        let DeValue::Array(array) = self.value else {
            self.refuse(report, format!("a list is needed, not {}", kind(self.value)), remedy);
            return None;
        };
        let element = |value: &'t Spanned<DeValue<'t>>| Item {
            key: self.key.clone(),
            key_span: self.key_span.clone(),
            span: value.span(),
            value: value.get_ref(),
        };
        Some(array.iter().map(element).collect())
    }

    fn quantity<T>(
        &self,
        report: &mut Report,
        quantity: &Quantity,
        read: fn(&str) -> Result<T, Fault>,
    ) -> Option<T> {
        let fault = match self.value {
            DeValue::String(text) => match read(text) {
                Ok(value) => return Some(value),
                Err(fault) => fault,
            },
            DeValue::Integer(integer) => quantity.bare(integer),
            DeValue::Float(float) => quantity.bare(float),
            other => Fault::new(
                format!("{} is needed, not {}", quantity.noun, kind(other)),
                format!("write it as \"{}\": {}", quantity.example, quantity.units_text),
            ),
        };
        self.fault(report, fault)
    }

    fn fault<T>(&self, report: &mut Report, fault: Fault) -> Option<T> {
        self.refuse(report, fault.message, fault.remedy);
        None
    }
}

fn item<'t>(table_key: &str, entry: &Entry<'t>) -> Item<'t> {
    Item {
        key: child_key(table_key, entry.name),
        key_span: entry.name_span.clone(),
        span: entry.value.span(),
        value: entry.value.get_ref(),
    }
}

/// The path of `name` within the table `key`, quoted where TOML would quote it.
pub fn child_key(key: &str, name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let shown: &dyn Display =
        if !name.is_empty() && name.chars().all(bare) { &name } else { &format!("{name:?}") };
    if key.is_empty() { shown.to_string() } else { format!("{key}.{shown}") }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text in quotes",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
