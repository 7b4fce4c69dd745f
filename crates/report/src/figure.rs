//! Figures as SVG: lines over a common axis, and groups of bars.
//!
//! ```text
//!  title
//!  ── web   ── batch   - - bound of web        legend above the plot: it never covers data
//!  y │      ╱╲
//!    │_╱╲__╱  ╲__
//!    └───────────── x
//! ```
//!
//! Colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart; after
//! seven series the same colours come again, dashed.

use std::fmt;

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (960, 400);
const MARGIN: i32 = 12;
/// Height of the title and of a row of the legend.
const TITLE_HEIGHT: i32 = 30;
const ROW_HEIGHT: i32 = 20;
/// Room for a letter of the legend, and for the line before it.
const LETTER_WIDTH: i32 = 8;
const SAMPLE_WIDTH: i32 = 30;

const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
];

/// A figure that could not be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot draw the figure {title:?}: {reason}")]
pub struct FigureError {
    title: String,
    reason: String,
}

/// One line of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, from left to right. Those that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

/// Lines over a common axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// What it shows.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// The lines; one stops at a point that is not finite and goes on after it.
    pub series: Vec<Series>,
    /// Horizontal dashed lines, as bounds: name, value, and the number of the series whose colour it takes.
    pub marks: Vec<(String, f64, usize)>,
    /// Whether the horizontal axis is logarithmic; points at or below 0 are left out then.
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic; points at or below 0 are left out then.
    pub log_y: bool,
}

/// Groups of bars, one bar of each series in each group.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What it shows.
    pub title: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// The names of the groups.
    pub groups: Vec<String>,
    /// Name and values of each series, a value for each group; one that is not finite has no bar.
    pub series: Vec<(String, Vec<f64>)>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The colour of series number `index`.
#[must_use]
pub const fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

const fn is_dashed(index: usize) -> bool {
    index / PALETTE.len() % 2 == 1
}

impl Lines {
    /// The figure as an SVG document.
    ///
    /// # Errors
    /// If the drawing library refuses it.
    pub fn svg(&self) -> Result<String, FigureError> {
        svg(&self.title, |root| self.draw(root))
    }

    fn is_shown(&self, (x, y): (f64, f64)) -> bool {
        x.is_finite() && y.is_finite() && (!self.log_x || x > 0.0) && (!self.log_y || y > 0.0)
    }

    fn draw(&self, root: &Area<'_>) -> Drawn {
        let mut entries: Vec<Entry> = Vec::new();
        for (index, series) in self.series.iter().enumerate() {
            entries.push(Entry { name: series.name.clone(), index, dashed: is_dashed(index), bar: false });
        }
        for (name, _, index) in &self.marks {
            entries.push(Entry { name: name.clone(), index: *index, dashed: true, bar: false });
        }
        let body = headed(root, &self.title, &entries)?;
        let points = || {
            let all = self.series.iter().flat_map(|series| series.points.iter().copied());
            all.filter(|point| self.is_shown(*point))
        };
        if points().next().is_none() {
            return nothing(&body);
        }
        let marks = self.marks.iter().map(|(_, y, _)| *y).filter(|y| y.is_finite() && *y > 0.0);
        let (left, right) = bounds(points().map(|(x, _)| x));
        let (low, high) = bounds(points().map(|(_, y)| y).chain(marks));
        let (low, high) = if self.log_y { (low / 1.3, high * 1.3) } else { (0.0, high.max(1e-9) * 1.05) };
        let right = if right > left { right } else { left + 1.0 };
        let high = if high > low { high } else { low + 1.0 };
        let mut builder = ChartBuilder::on(&body);
        builder.margin(MARGIN).x_label_area_size(38).y_label_area_size(66);
        match (self.log_x, self.log_y) {
            (false, false) => self.plot(builder.build_cartesian_2d(left..right, low..high)?, left, right),
            (false, true) => {
                self.plot(builder.build_cartesian_2d(left..right, (low..high).log_scale())?, left, right)
            }
            (true, false) => {
                self.plot(builder.build_cartesian_2d((left..right).log_scale(), low..high)?, left, right)
            }
            (true, true) => {
                let chart = builder.build_cartesian_2d((left..right).log_scale(), (low..high).log_scale())?;
                self.plot(chart, left, right)
            }
        }
    }

    fn plot<'a, X, Y>(
        &self,
        mut chart: ChartContext<'a, SVGBackend<'_>, Cartesian2d<X, Y>>,
        left: f64,
        right: f64,
    ) -> Drawn
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&|value| shown(*value))
            .y_label_formatter(&|value| shown(*value))
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .draw()?;
        for (_, y, index) in self.marks.iter().filter(|(_, y, _)| self.is_shown((right, *y))) {
            let line = [(left, *y), (right, *y)].into_iter();
            chart.draw_series(DashedLineSeries::new(line, 7, 5, colour(*index).mix(0.8).into()))?;
        }
        for (index, series) in self.series.iter().enumerate() {
            let style = colour(index).stroke_width(2);
            // A line across what is not there would say that it lies in between.
            for run in series.points.split(|point| !self.is_shown(*point)) {
                let points = run.iter().copied();
                match run {
                    [] => {}
                    [lone] => _ = chart.draw_series([Circle::new(*lone, 2, colour(index).filled())])?,
                    _ if is_dashed(index) => {
                        chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?;
                    }
                    _ => _ = chart.draw_series(LineSeries::new(points, style))?,
                }
            }
        }
        Ok(())
    }
}

impl Bars {
    /// The figure as an SVG document.
    ///
    /// # Errors
    /// If the drawing library refuses it.
    pub fn svg(&self) -> Result<String, FigureError> {
        svg(&self.title, |root| self.draw(root))
    }

    fn draw(&self, root: &Area<'_>) -> Drawn {
        let entry = |(index, (name, _)): (usize, &(String, Vec<f64>))| Entry {
            name: name.clone(),
            index,
            dashed: false,
            bar: true,
        };
        let entries: Vec<Entry> = self.series.iter().enumerate().map(entry).collect();
        let body = headed(root, &self.title, &entries)?;
        let values =
            || self.series.iter().flat_map(|(_, values)| values).copied().filter(|it| it.is_finite());
        if self.groups.is_empty() || values().next().is_none() {
            return nothing(&body);
        }
        let high = values().fold(0.0, f64::max).max(1e-9) * 1.12;
        let groups = self.groups.len();
        let mut chart = ChartBuilder::on(&body)
            .margin(MARGIN)
            .x_label_area_size(30)
            .y_label_area_size(66)
            .build_cartesian_2d(0.0..groups as f64, 0.0..high)?;
        chart
            .configure_mesh()
            .y_desc(&self.y)
            .y_label_formatter(&|value| shown(*value))
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .disable_x_mesh()
            .disable_x_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .draw()?;
        // Bars take four fifths of a group's room.
        let width = 0.8 / self.series.len().max(1) as f64;
        let letters = ("sans-serif", 12).into_font().color(&BLACK);
        let above = letters.pos(Pos::new(HPos::Center, VPos::Bottom));
        for (index, (_, values)) in self.series.iter().enumerate() {
            for (group, value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                let x = group as f64 + 0.1 + width * index as f64;
                let bar = [(x, 0.0), (x + width * 0.92, *value)];
                chart.draw_series([Rectangle::new(bar, colour(index).filled())])?;
                if groups * self.series.len() <= 24 {
                    let at = (x + width * 0.46, *value);
                    chart.draw_series([Text::new(shown(*value), at, above.clone())])?;
                }
            }
        }
        let (columns, rows) = (chart.plotting_area().get_x_axis_pixel_range(), body.dim_in_pixel());
        let below = ("sans-serif", 14).into_font().color(&BLACK).pos(Pos::new(HPos::Center, VPos::Top));
        let (_, top) = body.get_base_pixel();
        let (left, _) = body.get_base_pixel();
        for (group, name) in self.groups.iter().enumerate() {
            let middle =
                (f64::from(columns.end - columns.start) * (group as f64 + 0.5) / groups as f64) as i32;
            let at = (columns.start - left + middle, rows.1 as i32 - MARGIN - 24);
            debug_assert!(at.1 + top > 0);
            body.draw(&Text::new(name.clone(), at, below.clone()))?;
        }
        Ok(())
    }
}

/// A name of the legend.
struct Entry {
    name: String,
    index: usize,
    dashed: bool,
    bar: bool,
}

fn svg(title: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, FigureError> {
    let mut text = String::new();
    let drawn = {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)
            .map_err(Into::into)
            .and_then(|()| draw(&root))
            .and_then(|()| root.present().map_err(Into::into))
    };
    match drawn {
        Ok(()) => Ok(text),
        Err(error) => Err(FigureError { title: title.to_owned(), reason: error.to_string() }),
    }
}

/// Draws title and legend; what is left below them.
fn headed<'a>(
    root: &Area<'a>,
    title: &str,
    entries: &[Entry],
) -> Result<Area<'a>, Box<dyn std::error::Error>> {
    let title_style = ("sans-serif", 18).into_font().color(&BLACK);
    root.draw(&Text::new(title.to_owned(), (MARGIN, 10), title_style))?;
    let style = ("sans-serif", 14).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
    let (mut x, mut row) = (MARGIN, 0);
    for entry in entries {
        let width = SAMPLE_WIDTH + 8 + LETTER_WIDTH * entry.name.chars().count() as i32 + 14;
        if x > MARGIN && x + width > SIZE.0 as i32 {
            (x, row) = (MARGIN, row + 1);
        }
        let y = TITLE_HEIGHT + 10 + row * ROW_HEIGHT;
        let line = colour(entry.index).stroke_width(3);
        if entry.bar {
            root.draw(&Rectangle::new([(x + 8, y - 7), (x + 24, y + 7)], colour(entry.index).filled()))?;
        } else if entry.dashed {
            root.draw(&PathElement::new([(x, y), (x + 11, y)], line))?;
            root.draw(&PathElement::new([(x + 17, y), (x + 28, y)], line))?;
        } else {
            root.draw(&PathElement::new([(x, y), (x + 28, y)], line))?;
        }
        root.draw(&Text::new(entry.name.clone(), (x + SAMPLE_WIDTH + 6, y), style.clone()))?;
        x += width;
    }
    let rows = if entries.is_empty() { 0 } else { row + 1 };
    // Many flows must not leave the plot without room.
    let head = (TITLE_HEIGHT + rows * ROW_HEIGHT).min(SIZE.1 as i32 / 2);
    Ok(root.split_vertically(head).1)
}

fn nothing(body: &Area<'_>) -> Drawn {
    let style = ("sans-serif", 16).into_font().color(&BLACK.mix(0.6));
    body.draw(&Text::new("nothing to show", (80, 80), style))?;
    Ok(())
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// A number for people: three or four digits.
fn shown(value: f64) -> String {
    struct Short(f64);
    impl fmt::Display for Short {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let size = self.0.abs();
            let decimals = match size {
                _ if size == 0.0 || size >= 100.0 || self.0.fract() == 0.0 => 0,
                _ if size >= 10.0 => 1,
                _ if size >= 1.0 => 2,
                _ if size >= 0.1 => 3,
                _ => 4,
            };
            let text = format!("{:.decimals$}", self.0);
            let text =
                if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
            f.write_str(text)
        }
    }
    Short(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(points: Vec<(f64, f64)>) -> Lines {
        Lines {
            title: "a < b & c".to_owned(),
            x: "time, s".to_owned(),
            y: "latency, ms".to_owned(),
            series: vec![Series { name: "<script>".to_owned(), points }],
            marks: vec![("bound".to_owned(), 5.0, 0)],
            log_x: false,
            log_y: true,
        }
    }

    #[test]
    fn a_figure_is_svg_with_title_legend_and_units() {
        let text = lines(vec![(0.0, 1.0), (1.0, 20.0)]).svg().expect("drawn");
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        for word in ["a &lt; b &amp; c", "time, s", "latency, ms", "bound", "&lt;script&gt;"] {
            assert!(text.contains(word), "{word} is missing");
        }
    }

    #[test]
    fn a_line_stops_where_there_is_nothing() {
        let lines_of = |points| lines(points).svg().expect("drawn").matches("<polyline").count();
        let whole = lines_of(vec![(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0), (4.0, 5.0)]);
        let gap = lines_of(vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0), (4.0, 5.0)]);
        assert_eq!(gap, whole + 1);
        let lone = lines(vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)]).svg().expect("drawn");
        assert_eq!(lone.matches("<circle").count(), 2);
    }

    #[test]
    fn whatever_the_values_it_is_drawn() {
        let odd = [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300, 1e-300];
        for value in odd {
            for log_y in [false, true] {
                let figure = Lines { log_y, log_x: log_y, ..lines(vec![(0.0, value), (value, 3.0)]) };
                assert!(figure.svg().is_ok(), "{value} {log_y}");
            }
            let series = vec![("x".to_owned(), vec![value, 1.0])];
            let groups = vec!["a".to_owned(), "b".to_owned()];
            let bars = Bars { title: String::new(), y: String::new(), groups, series };
            assert!(bars.svg().is_ok(), "{value}");
        }
        assert!(lines(vec![]).svg().expect("drawn").contains("nothing to show"));
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 1234.5, 12.34, 1.5, 0.25, 0.0123, 3.0].map(shown);
        assert_eq!(texts, ["0", "1234", "12.3", "1.5", "0.25", "0.0123", "3"]);
    }
}
