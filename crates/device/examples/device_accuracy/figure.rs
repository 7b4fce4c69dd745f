//! The distributions of response times of all drives, in one SVG figure.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use crate::oracle::sorted;

const SIZE: (u32, u32) = (1080, 720);
const DRIVE: RGBColor = RGBColor(40, 40, 40);
const DISKSIM: RGBColor = RGBColor(230, 140, 30);
const OURS: RGBColor = RGBColor(31, 119, 180);
/// Points of each line.
const POINTS: usize = 250;

/// What one drive's panel shows; response times in nanoseconds.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) real: Vec<u64>,
    pub(crate) disksim: Vec<u64>,
    pub(crate) ours: Vec<u64>,
}

/// Draws the panels, two rows of three.
pub(crate) fn draw(file: &Path, panels: &[Panel]) -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, panel) in root.split_evenly((2, 3)).iter().zip(panels) {
            let mut chart = ChartBuilder::on(area)
                .caption(&panel.title, ("sans-serif", 15))
                .margin(10)
                .x_label_area_size(34)
                .y_label_area_size(40)
                .build_cartesian_2d(0.0..25.0, 0.0..1.0)?;
            chart
                .configure_mesh()
                .x_desc("response time, ms")
                .y_desc("share of the requests")
                .light_line_style(TRANSPARENT)
                .draw()?;
            let lines = [
                ("the drive", &panel.real, DRIVE.stroke_width(3)),
                ("DiskSim", &panel.disksim, DISKSIM.stroke_width(2)),
                ("Evenkeel", &panel.ours, OURS.stroke_width(2)),
            ];
            for (label, values, style) in lines {
                chart
                    .draw_series(LineSeries::new(distribution(values), style))?
                    .label(label)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::LowerRight)
                .background_style(WHITE)
                .border_style(TRANSPARENT)
                .draw()?;
        }
        root.present()?;
    }
    std::fs::write(file, text)?;
    Ok(())
}

fn distribution(values: &[u64]) -> Vec<(f64, f64)> {
    let sorted = sorted(values);
    let point = |i: usize| {
        let share = i as f64 / POINTS as f64;
        (sorted[(sorted.len() - 1) * i / POINTS] as f64 / 1e6, share)
    };
    (0..=POINTS).map(point).collect()
}
