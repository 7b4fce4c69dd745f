//! A profile as a figure: rates against depth, and against size.

use std::error::Error;
use std::path::Path;

use evenkeel_calibrate::{Cell, Measurement, Pattern, Profile};
use plotters::prelude::*;

const SIZE: (u32, u32) = (1040, 420);
const COLOURS: [RGBColor; 4] =
    [RGBColor(31, 119, 180), RGBColor(44, 160, 44), RGBColor(200, 60, 50), RGBColor(140, 90, 170)];
const KINDS: [(bool, Pattern); 4] = [
    (false, Pattern::Random),
    (false, Pattern::Sequential),
    (true, Pattern::Random),
    (true, Pattern::Sequential),
];

type Panel<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws `profile` into the SVG file `path`.
pub(super) fn draw(path: &Path, profile: &Profile) -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    drawn(&mut text, profile)?;
    std::fs::write(path, text)?;
    Ok(())
}

fn drawn(text: &mut String, profile: &Profile) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(SIZE.0 / 2);
    let smallest = profile.measurements.iter().map(|it| it.cell.bytes).min().unwrap_or(4096);
    let depth = profile.derived().map_or(1, |derived| derived.depth.get());
    let title = format!("{} KiB accesses", smallest >> 10);
    let by_depth = |cell: &Cell| (cell.bytes == smallest).then_some(f64::from(cell.depth));
    panel(&left, (&title, "accesses outstanding"), profile, by_depth)?;
    let title = format!("{depth} accesses outstanding");
    let by_size = |cell: &Cell| (cell.depth == depth).then_some(f64::from(cell.bytes >> 10));
    panel(&right, (&title, "size, KiB"), profile, by_size)?;
    root.present()?;
    drop((left, right));
    drop(root);
    Ok(())
}

/// One panel; `place` is where a cell stands on the axis, if it is shown.
fn panel(
    area: &Panel<'_>,
    (title, axis): (&str, &str),
    profile: &Profile,
    place: impl Fn(&Cell) -> Option<f64>,
) -> Result<(), Box<dyn Error>> {
    let shown: Vec<(f64, &Measurement)> =
        profile.measurements.iter().filter_map(|it| Some((place(&it.cell)?, it))).collect();
    let most = shown.iter().map(|(_, it)| it.high.as_f64()).fold(1.0, f64::max);
    let least = shown.iter().map(|(_, it)| it.low.as_f64()).fold(most, f64::min).max(0.1);
    let ends = shown.iter().fold((f64::INFINITY, 1.0_f64), |(a, b), (x, _)| (a.min(*x), b.max(*x)));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(
            (ends.0.min(ends.1) * 0.9..ends.1 * 1.1).log_scale(),
            (least * 0.7..most * 1.5).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc(axis)
        .y_desc("IOPS")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for ((writes, pattern), colour) in KINDS.into_iter().zip(COLOURS) {
        let mut points: Vec<(f64, &Measurement)> = shown
            .iter()
            .filter(|(_, it)| it.cell.writes == writes && it.cell.pattern == pattern)
            .copied()
            .collect();
        if points.is_empty() {
            continue;
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let label = format!("{} {}", pattern.name(), if writes { "writes" } else { "reads" });
        let line = points.iter().map(|(x, it)| (*x, it.rate.as_f64().max(least)));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.iter().map(|(x, it)| {
            let (low, high) = (it.low.as_f64(), it.high.as_f64());
            PathElement::new([(*x, low.max(least)), (*x, high)], colour.stroke_width(1))
        }))?;
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.85)).draw()?;
    Ok(())
}
