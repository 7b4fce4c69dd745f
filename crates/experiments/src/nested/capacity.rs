//! Section 4.4: the capacity that one workload needs, graded and with one bound (figure 4.8).

use std::path::{Path, PathBuf};

use evenkeel_core::{Rate, Span};
use evenkeel_plan::{Flow, Fraction, MemorySource, Target, exact_need, fit};
use evenkeel_report::figure::Bars;
use evenkeel_trace::generate::Personality;
use evenkeel_trace::{Options, open};

use super::loads::{CASCADE, STAND_INS, generated, planned};
use crate::study::{Figure, number};
use crate::{Check, Context, ExperimentError, Study};

/// δ_1; δ_2 and δ_3 are ten and a hundred times as long, as 50, 500 and 5000 ms in section 4.2.
const BOUNDS_MS: [u64; 4] = [5, 10, 20, 50];
const SECONDS: u64 = 120;
const LOADS: [(&str, Personality, f64, u64); 5] = [
    ("W1 WebSearch", Personality::WebSearch, 330.0, 1),
    ("W2 WebSearch", Personality::WebSearch, 330.0, 2),
    ("W3 Financial", Personality::Financial, 100.0, 3),
    ("W4 Financial", Personality::Financial, 100.0, 4),
    ("W5 Exchange", Personality::Exchange, 910.0, 5),
];

/// Requests of a real trace that are looked at.
const REAL_MAX: usize = 30_000;
const HEADS: [&str; 7] = [
    "workload",
    "one bound, 90 %",
    "one bound, 95 %",
    "one bound, 100 %",
    "graded, lemma 1",
    "graded, exact",
    "graded exact / one bound 100 %, %",
];

/// Capacities in IOPS.
struct Needs {
    /// One bound for 90, 95 and 100 % of the requests.
    single: [f64; 3],
    /// Graded: by lemma 1, and what the trace needs exactly.
    nested: [f64; 2],
}

pub(super) fn fig_4_8(context: &Context) -> Result<Study, ExperimentError> {
    let mut study = Study { seeds: LOADS.map(|(.., seed)| seed).to_vec(), ..Study::default() };
    let loads = LOADS
        .iter()
        .map(|(_, personality, iops, seed)| generated(*personality, *iops, *seed, SECONDS))
        .collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    let mut drawn = Vec::new();
    for bound in BOUNDS_MS {
        let mut bars: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for ((name, ..), load) in LOADS.iter().zip(&loads) {
            let needs = needs(load, bound)?;
            let fraction = needs.nested[1] / needs.single[2];
            let law = format!("{name}, {bound} ms: graded, of what one bound for all needs");
            let check = Check::at_most(law, 100.0 * fraction, 75.0, "%");
            study.check(check.because(&floor(load, &needs)));
            rows.push(
                [
                    vec![format!("{name}, {bound} ms")],
                    needs.single.map(number).to_vec(),
                    needs.nested.map(number).to_vec(),
                    vec![number(100.0 * fraction)],
                ]
                .concat(),
            );
            bars[0].push(needs.nested[1]);
            bars[1].push(needs.single[2]);
        }
        let [nested, single] = bars;
        drawn.push(Bars {
            title: format!("Capacity for a bound of {bound} ms"),
            y: "IOPS".to_owned(),
            groups: LOADS.iter().map(|(name, ..)| (*name).to_owned()).collect(),
            series: vec![("graded".to_owned(), nested), ("one bound".to_owned(), single)],
        });
    }
    for bars in drawn {
        study.figures.push(Figure { title: bars.title.clone(), svg: bars.svg()? });
    }
    study.table(
        "Capacity needed, IOPS. Graded: 90 % within δ, 95 % within 10 δ, 100 % within 100 δ",
        &HEADS,
        rows,
    );
    study.note(
        "\"A fraction\" is checked as at most 75 % for each; the figure in the thesis has no numbers. One bound for a part of the \
         requests is the least κ of the RTT decomposition, with the rest put off for ever.",
    );
    study.note(STAND_INS);
    study.note(CASCADE);
    if let Some(folder) = &context.traces {
        real(&mut study, folder)?;
    }
    Ok(study)
}

/// What a grade can save at most: no promise goes below what 90 % within the innermost bound take.
fn floor(load: &MemorySource, needs: &Needs) -> String {
    let mean = load.requests.len() as f64 / SECONDS as f64;
    let share = |iops: f64| number(100.0 * iops / needs.single[2]);
    format!(
        "this load's bursts are small beside its mean rate where the bound is long: of the {} IOPS that one bound for all needs, the mean \
         rate alone is {} % ({} IOPS), 90 % within the innermost bound, the rest never answered, take {} %, and the two outer grades the rest",
        number(needs.single[2]),
        share(mean),
        number(mean),
        share(needs.single[0])
    )
}

/// The same for the beginnings of real traces: a table of those that can be read, and a note on each that cannot.
fn real(study: &mut Study, folder: &Path) -> Result<(), ExperimentError> {
    let unread = |error: std::io::Error| ExperimentError::Other(format!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        files.push(entry.map_err(unread)?.path());
    }
    files.sort();
    let mut rows = Vec::new();
    for file in files.iter().filter(|file| file.is_file()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let read =
            open(file, &Options::default()).and_then(|trace| trace.take(REAL_MAX).collect::<Result<_, _>>());
        match read.map(|requests| needs(&MemorySource { requests }, 20)) {
            Ok(Ok(needs)) => {
                let fraction = number(100.0 * needs.nested[1] / needs.single[2]);
                let numbers = [needs.single.map(number).to_vec(), needs.nested.map(number).to_vec()].concat();
                rows.push([vec![name.into_owned()], numbers, vec![fraction]].concat());
            }
            Ok(Err(error)) => {
                study.note(format!("{name} is left out: {error}"));
            }
            Err(error) => {
                // It names the file by its path on this machine.
                let said = error.to_string().replace(&format!("{}/", folder.display()), "");
                study.note(format!("Left out: {said}"));
            }
        }
    }
    study.table(&format!("Real traces, up to {REAL_MAX} requests of each, δ = 20 ms"), &HEADS, rows);
    Ok(())
}

fn needs(load: &MemorySource, bound: u64) -> Result<Needs, ExperimentError> {
    let target = |millionths: u32, ms: u64| {
        let fraction = Fraction::from_millionths(millionths);
        let fraction = fraction.ok_or_else(|| ExperimentError::Other("no fraction".to_owned()))?;
        Ok::<_, ExperimentError>(Target { fraction, latency: Span::from_millis(ms) })
    };
    let iops = |rate: Rate| rate.as_f64();
    let mut single = [0.0; 3];
    for (need, part) in single.iter_mut().zip([900_000, 950_000, 1_000_000]) {
        *need = iops(fit(load, &[target(part, bound)?], &mut |_| {}).map_err(planned)?.capacity);
    }
    let graded = [target(900_000, bound)?, target(950_000, 10 * bound)?, target(1_000_000, 100 * bound)?];
    let fitted = fit(load, &graded, &mut |_| {}).map_err(planned)?;
    let flow = Flow { name: "w".to_owned(), source: load, classes: fitted.classes };
    let exact = exact_need(&[flow]).map_err(planned)?;
    Ok(Needs { single, nested: [iops(fitted.capacity), iops(exact)] })
}
