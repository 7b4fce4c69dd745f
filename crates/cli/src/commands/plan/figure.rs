//! The capacity-versus-fraction curve as a figure.

use std::error::Error;
use std::path::Path;

use evenkeel_plan::{Fit, Target};
use plotters::prelude::*;

const SIZE: (u32, u32) = (720, 420);
const BLUE_LINE: RGBColor = RGBColor(31, 119, 180);
const RED_POINT: RGBColor = RGBColor(200, 60, 50);

/// Draws the curve into the SVG file `path`.
pub(super) fn curve(path: &Path, fitted: &Fit, targets: &[Target]) -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    draw(&mut text, fitted, targets)?;
    std::fs::write(path, text)?;
    Ok(())
}

fn draw(text: &mut String, fitted: &Fit, targets: &[Target]) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let points: Vec<(f64, f64)> = fitted
        .curve
        .iter()
        .map(|point| (point.capacity.as_f64(), point.within as f64 * 100.0 / fitted.requests as f64))
        .collect();
    let most = points.last().map_or(1.0, |(capacity, _)| *capacity).max(0.001);
    let latency = targets.first().map_or(String::new(), |target| target.latency.to_string());
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("Requests that can be done within {latency}"), ("sans-serif", 17))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..most * 1.05, 0.0..105.0)?;
    chart
        .configure_mesh()
        .x_desc("capacity, IOPS")
        .y_desc("requests, %")
        .light_line_style(TRANSPARENT)
        .draw()?;
    chart.draw_series(LineSeries::new(points.iter().copied(), BLUE_LINE.stroke_width(2)))?;
    if let Some(knee) = points.get(fitted.knee) {
        chart.draw_series([Circle::new(*knee, 5, RED_POINT.filled())])?;
        let label = format!("knee: {:.1} % at {:.0} IOPS", knee.1, knee.0);
        chart.draw_series([Text::new(label, (knee.0 + most * 0.02, knee.1 - 5.0), ("sans-serif", 14))])?;
    }
    root.present()?;
    drop(chart);
    drop(root);
    Ok(())
}
