//! A trace as a figure: arrivals over time, sizes, addresses over time.

use std::error::Error;
use std::io;
use std::path::Path;

use evenkeel_trace::statistics::{AddressMap, Statistics};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::units::shown_bytes;

const SIZE: (u32, u32) = (1000, 760);
const READS: RGBColor = RGBColor(31, 119, 180);
const WRITES: RGBColor = RGBColor(200, 60, 50);
/// Points of the line of arrivals.
const POINTS: usize = 256;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// Draws the statistics of `trace` into the SVG file `file`.
pub(super) fn draw(file: &Path, trace: &Path, statistics: &Statistics) -> io::Result<()> {
    let mut text = String::new();
    drawn(&mut text, trace, statistics).map_err(|error| io::Error::other(error.to_string()))?;
    std::fs::write(file, text)
}

fn drawn(text: &mut String, trace: &Path, statistics: &Statistics) -> Drawn {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let name = trace.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let titled = root.titled(&name, ("sans-serif", 19))?;
    let (upper, lower) = titled.split_vertically(360);
    let (left, right) = upper.split_horizontally(620);
    arrivals(&left, statistics)?;
    sizes(&right, statistics)?;
    addresses(&lower, statistics)?;
    root.present()?;
    drop(titled);
    Ok(())
}

/// Requests per second over time, reads and all.
fn arrivals(area: &Area<'_>, statistics: &Statistics) -> Drawn {
    let series = statistics.series();
    let together = series.bins().len().div_ceil(POINTS).max(1);
    let seconds = series.width().as_secs_f64() * together as f64;
    let point = |(number, bins): (usize, &[(u64, u64)])| {
        let (reads, others) = bins.iter().fold((0, 0), |sum, bin| (sum.0 + bin.0, sum.1 + bin.1));
        ((number as f64 + 0.5) * seconds, reads as f64 / seconds, (reads + others) as f64 / seconds)
    };
    let points: Vec<(f64, f64, f64)> = series.bins().chunks(together).enumerate().map(point).collect();
    let highest = points.iter().fold(1.0_f64, |most, point| most.max(point.2));
    let end = (points.len() as f64 * seconds).max(1e-6);
    let mut chart = ChartBuilder::on(area)
        .caption("Arrivals", ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..highest * 1.05)?;
    chart
        .configure_mesh()
        .x_desc("time, s")
        .y_desc("requests per second")
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (label, colour, which) in [("all", WRITES, false), ("reads", READS, true)] {
        let line = points.iter().map(|(at, reads, all)| (*at, if which { *reads } else { *all }));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(1)))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

/// How many requests have which size, by powers of two.
fn sizes(area: &Area<'_>, statistics: &Statistics) -> Drawn {
    let powers = statistics.sizes().powers();
    let exponent = |bytes: u64| if bytes == 0 { 0 } else { bytes.ilog2() };
    let first = powers.first().map_or(9, |(bytes, _)| exponent(*bytes));
    let last = powers.last().map_or(12, |(bytes, _)| exponent(*bytes)) + 1;
    let all = statistics.sizes().count().max(1) as f64;
    let most = powers.iter().fold(0.0_f64, |most, (_, count)| most.max(*count as f64 / all * 100.0));
    let mut chart = ChartBuilder::on(area)
        .caption("Sizes", ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(48)
        .build_cartesian_2d(f64::from(first)..f64::from(last), 0.0..most.max(1.0) * 1.05)?;
    chart
        .configure_mesh()
        .x_desc("from size")
        .y_desc("% of requests")
        .x_labels(8)
        .x_label_formatter(&|exponent| shown_bytes(exponent.exp2()).replace(".0", ""))
        .light_line_style(TRANSPARENT)
        .draw()?;
    chart.draw_series(powers.iter().map(|(bytes, count)| {
        let from = f64::from(exponent(*bytes));
        let share = *count as f64 / all * 100.0;
        Rectangle::new([(from + 0.06, 0.0), (from + 0.94, share)], READS.mix(0.8).filled())
    }))?;
    Ok(())
}

/// Where and when there were requests; blue reads, red writes, stronger where there were more.
fn addresses(area: &Area<'_>, statistics: &Statistics) -> Drawn {
    const GIB: f64 = (1 << 30) as f64;
    let map: &AddressMap = statistics.map();
    let (seconds, gib) = (map.column().as_secs_f64(), map.row_bytes() as f64 / GIB);
    let used = map.cells().fold((1, 1, 1), |most, (column, row, reads, writes)| {
        (most.0.max(column + 1), most.1.max(row + 1), most.2.max(reads + writes))
    });
    let mut chart = ChartBuilder::on(area)
        .caption("Addresses over time, all volumes: reads blue, writes red", ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..used.0 as f64 * seconds, 0.0..used.1 as f64 * gib)?;
    chart.configure_mesh().x_desc("time, s").y_desc("address, GiB").disable_mesh().draw()?;
    let strongest = f64::from(used.2).ln_1p();
    chart.draw_series(map.cells().map(|(column, row, reads, writes)| {
        let all = f64::from(reads) + f64::from(writes);
        let share = f64::from(reads) / all;
        let mixed = |of_reads: u8, of_writes: u8| {
            (f64::from(of_reads) * share + f64::from(of_writes) * (1.0 - share)) as u8
        };
        let colour = RGBColor(mixed(READS.0, WRITES.0), mixed(READS.1, WRITES.1), mixed(READS.2, WRITES.2));
        let strength = 0.25 + 0.75 * all.ln_1p() / strongest;
        let (left, low) = (column as f64 * seconds, row as f64 * gib);
        Rectangle::new([(left, low), (left + seconds, low + gib)], colour.mix(strength).filled())
    }))?;
    Ok(())
}
