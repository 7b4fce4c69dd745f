//! How true the disk model is, and how fast: writes `docs/results/device-accuracy.md` and its figure.
//!
//! `EVENKEEL_ORACLES=/path cargo run --release -p evenkeel-device --example device_accuracy`
//!
//! The folder holds the whole data of which `crates/device/tests/data` has excerpts: `real-drive/` and
//! `outputs/`.

#[path = "../../tests/oracle/mod.rs"]
mod oracle;

mod figure;
mod speed;

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use evenkeel_device::disk::Parameters;
use oracle::{Measured, SplitMix64, demerit, mean, rms, thinking};

const HEAD: &str = include_str!("head.md");
/// How often the angle of the platters is drawn anew.
const DRAWS: u64 = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let Some(root) = oracle::whole_data() else {
        return Err("set EVENKEEL_ORACLES to the folder with the whole data".into());
    };
    let results = oracle::repository().join("docs/results");
    let mut text = HEAD.to_owned();
    text.push_str("\n## Against real drives\n\n");
    real_drives(&mut text, &root, &results)?;
    text.push_str("\n## Drives that nothing was taken from\n\n");
    unseen(&mut text)?;
    text.push_str("\n## Against DiskSim\n\n");
    disksim(&mut text, &root)?;
    text.push_str("\n## Speed\n\n");
    speed::table(&mut text)?;
    std::fs::write(results.join("device-accuracy.md"), text)?;
    Ok(())
}

/// The distances for each drive, with the figure beside them.
fn real_drives(text: &mut String, root: &Path, results: &Path) -> Result<(), Box<dyn Error>> {
    text.push_str(
        "| RMS distance, ms | DiskSim | Evenkeel | of DiskSim's | request by request: DiskSim | Evenkeel |\n",
    );
    text.push_str("|---|---:|---:|---:|---:|---:|\n");
    let mut draws = String::new();
    let mut panels = Vec::new();
    for (name, file) in oracle::MEASURED {
        let measured = oracle::all_measured(root, file);
        let drive = oracle::drive(name);
        let real: Vec<u64> = measured.iter().map(|request| request.response).collect();
        let disksim: Vec<u64> = measured.iter().map(|request| request.disksim).collect();
        let ours = thinking(&drive, &measured);
        let (distance, bar) = (demerit(&ours, &real), demerit(&disksim, &real));
        writeln!(
            text,
            "| {name} | {:.3} | **{:.3}** | {:.0} % | {:.3} | {:.3} |",
            bar / 1e6,
            distance / 1e6,
            100.0 * distance / bar,
            rms(&disksim, &real) / 1e6,
            rms(&ours, &real) / 1e6,
        )?;
        draws_of_the_angle(&mut draws, name, &measured)?;
        panels.push(figure::Panel { title: drive.description, real, disksim, ours });
    }
    figure::draw(&results.join("device-accuracy.svg"), &panels)?;
    text.push_str("\n![Distributions of response times: drive, DiskSim, Evenkeel](device-accuracy.svg)\n\n");
    text.push_str(include_str!("draws.md"));
    text.push_str(&draws);
    text.push('\n');
    text.push_str(include_str!("real.md"));
    Ok(())
}

/// The distances for drives with the parameters of DiskSim's files and nothing else.
fn unseen(text: &mut String) -> Result<(), Box<dyn Error>> {
    text.push_str(include_str!("unseen.md"));
    text.push_str(
        "\n| RMS distance, ms | requests | mean of the drive | DiskSim, as published | Evenkeel |\n",
    );
    text.push_str("|---|---:|---:|---:|---:|\n");
    for (name, disksim_us, _) in oracle::UNSEEN {
        let (drive, measured) = oracle::unseen(name);
        let real: Vec<u64> = measured.iter().map(|request| request.response).collect();
        let distance = demerit(&thinking(&drive, &measured), &real);
        writeln!(
            text,
            "| {name} | {} | {:.3} | {:.3} | {:.3} |",
            real.len(),
            mean(&real) / 1e6,
            f64::from(disksim_us) / 1e3,
            distance / 1e6,
        )?;
    }
    Ok(())
}

/// The distances when every think time is longer by a random part of a revolution: medians of [`DRAWS`].
fn draws_of_the_angle(text: &mut String, name: &str, measured: &[Measured]) -> Result<(), Box<dyn Error>> {
    let mut disksim = oracle::drive_as_disksim(name);
    let settling = disksim.clone();
    disksim.resettle_ns = Some(0);
    let drive = oracle::drive(name);
    let real: Vec<u64> = measured.iter().map(|request| request.response).collect();
    let half = real.len() / 2;
    let median = |parameters: &Parameters, from: usize| {
        let distance = |seed: u64| {
            let mut random = SplitMix64(seed);
            let mut drawn = measured.to_vec();
            drawn
                .iter_mut()
                .for_each(|request| request.think += random.next() % (60_000_000_000 / u64::from(drive.rpm)));
            (demerit(&thinking(parameters, &drawn)[from..], &real[from..])).round() as u64
        };
        oracle::sorted(&(0..DRAWS).map(distance).collect::<Vec<_>>())[DRAWS as usize / 2] as f64 / 1e6
    };
    writeln!(
        text,
        "| {name} | {:.3} | {:.3} | **{:.3}** | {:.3} | {:.3} |",
        median(&disksim, 0),
        median(&settling, 0),
        median(&drive, 0),
        median(&disksim, half),
        median(&drive, half),
    )?;
    Ok(())
}

/// One line for each run.
fn disksim(text: &mut String, root: &Path) -> Result<(), Box<dyn Error>> {
    text.push_str(include_str!("disksim.md"));
    text.push_str("\n| run | mean, ms: DiskSim | Evenkeel | request by request, RMS | with DiskSim's angle | distributions, RMS | time of the run |\n");
    text.push_str("|---|---:|---:|---:|---:|---:|---:|\n");
    for run in oracle::runs() {
        let outcome = run.outcome();
        let theirs = run.all_responses(root);
        let percent = |nanos: f64| 100.0 * nanos / mean(&theirs);
        let single = match run.is_queued() && !run.arrives() {
            true => "–".to_owned(),
            false => format!("{:.2} %", percent(rms(&outcome.responses, &theirs))),
        };
        let same_angle = match run.is_request_by_request() {
            true => {
                let outcome = run.outcome_on(&run.parameters_with_disksims_angle());
                format!("{:.2} %", percent(rms(&outcome.responses, &theirs)))
            }
            false => "–".to_owned(),
        };
        writeln!(
            text,
            "| {} | {:.3} | {:.3} | {single} | {same_angle} | {:.2} % | {:+.2} % |",
            run.name,
            mean(&theirs) / 1e6,
            mean(&outcome.responses) / 1e6,
            percent(demerit(&outcome.responses, &theirs)),
            100.0 * (outcome.end as f64 / run.end_ns as f64 - 1.0),
        )?;
    }
    Ok(())
}
