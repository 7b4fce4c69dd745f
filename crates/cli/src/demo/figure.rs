//! The demonstration as a figure: latency over time, one panel for each scheduler.

use std::error::Error;
use std::io;
use std::path::Path;

use plotters::prelude::*;

use super::Phase;
use super::tenant::Reply;

const SIZE: (u32, u32) = (960, 380);
const COLOURS: [RGBColor; 3] = [RGBColor(31, 119, 180), RGBColor(44, 160, 44), RGBColor(200, 60, 50)];
/// Latencies are drawn as the longest in each tenth of a second.
const WINDOW_US: u64 = 100_000;
const LATENCY_MS: std::ops::Range<f64> = 1.0..4000.0;

/// Draws all phases beside each other into the SVG file `file`.
pub(super) fn draw(file: &Path, phases: &[Phase], seconds: u64) -> io::Result<()> {
    let mut text = String::new();
    drawn(&mut text, phases, seconds).map_err(|error| io::Error::other(error.to_string()))?;
    std::fs::write(file, text)
        .map_err(|error| io::Error::new(error.kind(), format!("--svg {}: {error}", file.display())))
}

fn drawn(text: &mut String, phases: &[Phase], seconds: u64) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    for (panel, phase) in root.split_evenly((1, phases.len())).iter().zip(phases) {
        draw_phase(panel, phase, seconds)?;
    }
    root.present()?;
    drop(root);
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_phase(panel: &Area<'_>, phase: &Phase, seconds: u64) -> Result<(), Box<dyn Error>> {
    let title = format!("{}: {:.0} requests per second in total", phase.scheduler, phase.device_iops);
    let mut chart = ChartBuilder::on(panel)
        .caption(title, ("sans-serif", 17))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..seconds as f64, LATENCY_MS.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("time, s")
        .y_desc("longest latency in 0.1 s, ms")
        .y_label_formatter(&|ms| format!("{ms:.0}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (tenant, colour) in phase.tenants.iter().zip(COLOURS) {
        let label = match tenant.deadline {
            Some(deadline) => format!("{}, promised {} ms", tenant.tenant, deadline.as_millis()),
            None => format!("{}, promised nothing", tenant.tenant),
        };
        chart
            .draw_series(LineSeries::new(longest(&tenant.measured.replies), colour.stroke_width(2)))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        if let Some(deadline) = tenant.deadline {
            let ms = deadline.as_secs_f64() * 1e3;
            let line = [(0.0, ms), (seconds as f64, ms)].into_iter();
            chart.draw_series(DashedLineSeries::new(line, 6, 4, colour.mix(0.8).into()))?;
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .draw()?;
    Ok(())
}

/// The longest latency of each window in which there was a reply: seconds and milliseconds.
fn longest(replies: &[Reply]) -> Vec<(f64, f64)> {
    let mut windows: Vec<Option<u64>> = Vec::new();
    for reply in replies {
        let window = (reply.at_us / WINDOW_US) as usize;
        if windows.len() <= window {
            windows.resize(window + 1, None);
        }
        windows[window] = windows[window].max(Some(reply.latency_us));
    }
    let point = |(window, longest): (usize, &Option<u64>)| {
        let at = (window as u64 * WINDOW_US + WINDOW_US / 2) as f64 / 1e6;
        longest.map(|latency| (at, (latency as f64 / 1e3).max(LATENCY_MS.start)))
    };
    windows.iter().enumerate().filter_map(point).collect()
}
