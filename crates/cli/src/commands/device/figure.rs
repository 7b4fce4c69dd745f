//! A disk as a figure: its seek curve and its zones.

use std::error::Error;
use std::io;
use std::path::Path;

use evenkeel_device::disk::Parameters;
use evenkeel_device::disk::seek::Arm;
use plotters::prelude::*;

const SIZE: (u32, u32) = (1000, 400);
const BLUE: RGBColor = RGBColor(31, 119, 180);
/// Points of the curve, besides those that were measured.
const POINTS: u32 = 400;

/// Draws `disk` into the SVG file `file`.
pub(super) fn draw(file: &Path, title: &str, disk: &Parameters) -> io::Result<()> {
    let mut text = String::new();
    drawn(&mut text, title, disk).map_err(|error| io::Error::other(error.to_string()))?;
    std::fs::write(file, text)
        .map_err(|error| io::Error::new(error.kind(), format!("--svg {}: {error}", file.display())))
}

fn drawn(text: &mut String, title: &str, disk: &Parameters) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let titled = root.titled(title, ("sans-serif", 18))?;
    let panels = titled.split_evenly((1, 2));
    draw_seek(&panels[0], disk)?;
    draw_zones(&panels[1], disk)?;
    root.present()?;
    drop(panels);
    drop(titled);
    drop(root);
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_seek(panel: &Area<'_>, disk: &Parameters) -> Result<(), Box<dyn Error>> {
    let arm = Arm::new(disk);
    let ms = |distance: u32| arm.seek_ns(distance) as f64 / 1e6;
    let longest = disk.cylinders - 1;
    let mut distances: Vec<u32> = (0..=POINTS)
        .map(|point| (u64::from(longest) * u64::from(point) / u64::from(POINTS)) as u32)
        .collect();
    let measured: Vec<u32> =
        disk.seek_ns.iter().map(|point| point.0).filter(|distance| *distance <= longest).collect();
    distances.extend(&measured);
    distances.sort_unstable();
    let highest = distances.iter().map(|distance| ms(*distance)).fold(1e-6, f64::max);
    let mut chart = ChartBuilder::on(panel)
        .caption("seek time for reads", ("sans-serif", 15))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..f64::from(longest.max(1)), 0.0..highest * 1.05)?;
    chart.configure_mesh().x_desc("cylinders").y_desc("ms").light_line_style(TRANSPARENT).draw()?;
    let line = distances.iter().map(|distance| (f64::from(*distance), ms(*distance)));
    chart.draw_series(LineSeries::new(line, BLUE.stroke_width(2)))?;
    let points =
        measured.iter().map(|distance| Circle::new((f64::from(*distance), ms(*distance)), 2, BLUE.filled()));
    chart.draw_series(points)?;
    Ok(())
}

fn draw_zones(panel: &Area<'_>, disk: &Parameters) -> Result<(), Box<dyn Error>> {
    let rate = |sectors: u32| f64::from(sectors) * f64::from(disk.sector_bytes) * f64::from(disk.rpm) / 60e6;
    let fastest = disk.zone.iter().map(|zone| rate(zone.sectors_per_track)).fold(1e-6, f64::max);
    let mut chart = ChartBuilder::on(panel)
        .caption("zones: what passes under a head", ("sans-serif", 15))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..f64::from(disk.cylinders), 0.0..fastest * 1.05)?;
    chart
        .configure_mesh()
        .x_desc("cylinder, from the outer edge")
        .y_desc("MB/s")
        .light_line_style(TRANSPARENT)
        .draw()?;
    let zones = disk.zone.iter().map(|zone| {
        let (first, last) = (f64::from(zone.cylinders.0), f64::from(zone.cylinders.1) + 1.0);
        Rectangle::new([(first, 0.0), (last, rate(zone.sectors_per_track))], BLUE.mix(0.35).filled())
    });
    chart.draw_series(zones)?;
    Ok(())
}
