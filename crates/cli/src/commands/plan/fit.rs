//! `evenkeel plan fit`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use evenkeel_core::{CostModel, Envelope, Rate};
use evenkeel_plan::{FileSource, Fit, Flow, Priced, Source, Target, exact_need, fit};
use serde_json::{Value, json};

use super::{BAD_INPUT, Classes, DONE, EXIT_CODES, classes, failed, figure, prices, progress};
use crate::report::print;
use crate::text_table::{Align, text_table};

/// Options of `evenkeel plan fit`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct FitArgs {
    /// The trace
    trace: PathBuf,
    /// What is wanted, the innermost class first: fractions of all requests, and within which latency
    #[arg(long, value_name = "CLASSES", default_value = "90% 5 ms, 95% 50 ms, 100% 500 ms", value_parser = classes)]
    classes: Classes,
    /// Only the volume of this number in the trace
    #[arg(long, value_name = "NUMBER")]
    volume: Option<u32>,
    /// Draw the capacity-versus-fraction curve into this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// What requests cost, as `cost` in a store: `{ write = 2, read = { "4 KiB" = 1, "1 MiB" = 150 } }`; one each if
    /// left out
    #[arg(long, value_name = "TOML", value_parser = prices, default_value = "{}")]
    cost: CostModel,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &FitArgs) -> u8 {
    let file = FileSource::new(&args.trace, args.volume);
    let source = Priced { source: &file, cost: args.cost.clone() };
    let targets = &args.classes.0;
    let bar = progress(None, "reading the trace, pass");
    let fitted = fit(&source, targets, &mut |passes| bar.set_position(u64::from(passes)));
    let need = |fitted: Fit| {
        bar.set_message("simulating the trace");
        let flow = Flow { name: source.name(), source: &source, classes: fitted.classes.clone() };
        exact_need(&[flow]).map(|exact| (fitted, exact))
    };
    let fitted = fitted.and_then(need);
    bar.finish_and_clear();
    let (fitted, exact) = match fitted {
        Ok(fitted) => fitted,
        Err(error) => return failed(&error.to_string(), args.json),
    };
    if let Some(path) = &args.svg
        && let Err(error) = figure::curve(path, &fitted, targets)
    {
        failed(&format!("--svg {}: {error}", path.display()), args.json);
        return BAD_INPUT;
    }
    if args.json {
        let mut object = as_json(&fitted, targets);
        object["exact_iops"] = json!(exact.as_f64());
        print(&format!("{object}\n"));
    } else {
        print(&text(&fitted, targets, exact));
    }
    DONE
}

fn text(fitted: &Fit, targets: &[Target], exact: Rate) -> String {
    let mut text = format!("{} requests in {:.3} s\n", fitted.requests, fitted.duration.as_secs_f64());
    let heads =
        [("wanted", Align::Left), ("promise ⟨burst, rate, latency⟩", Align::Left), ("covers", Align::Right)];
    let rows: Vec<[String; 3]> = targets
        .iter()
        .zip(fitted.classes.iter().zip(&fitted.covered))
        .map(|(target, (class, covered))| {
            let wanted = format!("{} within {}", target.fraction, target.latency);
            [wanted, class.to_string(), percent(*covered, fitted.requests)]
        })
        .collect();
    text += &text_table(heads, &rows);
    let _ = writeln!(
        text,
        "needs {} for whatever is sent inside (lemma 1), {exact} for this trace",
        fitted.capacity
    );
    let (graduated, single) = (fitted.capacity.as_millis(), fitted.single_capacity.as_millis());
    let times = single as f64 / graduated.max(1) as f64;
    let _ = writeln!(
        text,
        "one triple for all of that within the innermost latency: {}, needs {} ({times:.2} times as much)",
        fitted.single, fitted.single_capacity
    );
    if let Some(knee) = fitted.curve.get(fitted.knee) {
        let _ = writeln!(
            text,
            "knee of the curve: {} serves {} within {}; beyond, capacity buys ever less",
            knee.capacity,
            percent(knee.within, fitted.requests),
            targets[0].latency
        );
    }
    let _ = write!(text, "\nfor the configuration:\n{}", fragment(fitted));
    text
}

/// A volume's promise as the configuration has it.
pub(super) fn fragment(fitted: &Fit) -> String {
    let lines: Vec<String> = fitted.classes.iter().map(|class| format!("    {},\n", inline(class))).collect();
    let single = inline(&fitted.single);
    if fitted.classes.len() == 1 {
        return format!("sla = {}\n", inline(&fitted.classes[0]));
    }
    format!(
        "# in a store with scheduler = \"nested\"; under \"pclock\" instead: sla = {single}\nsla = [\n{}]\n",
        lines.concat()
    )
}

fn inline(class: &Envelope) -> String {
    format!("{{ burst = {}, rate = \"{}\", latency = \"{}\" }}", class.burst(), class.rate(), class.latency())
}

fn percent(part: u64, whole: u64) -> String {
    // Rounded down, so that 100 % means all.
    let hundredths = u128::from(part) * 10_000 / u128::from(whole.max(1));
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

pub(super) fn as_json(fitted: &Fit, targets: &[Target]) -> Value {
    let class = |class: &Envelope| {
        json!({
            "burst_requests": class.burst().as_f64(),
            "rate_iops": class.rate().as_f64(),
            "latency_us": class.latency().as_nanos() as f64 / 1_000.0,
        })
    };
    let classes: Vec<Value> = targets
        .iter()
        .zip(fitted.classes.iter().zip(&fitted.covered))
        .map(|(target, (envelope, covered))| {
            let mut object = class(envelope);
            object["wanted_fraction"] = json!(target.fraction.as_f64());
            object["covered_requests"] = json!(covered);
            object
        })
        .collect();
    let curve: Vec<Value> = fitted
        .curve
        .iter()
        .map(|point| json!({ "capacity_iops": point.capacity.as_f64(), "within_requests": point.within }))
        .collect();
    json!({
        "ok": true,
        "requests": fitted.requests,
        "duration_s": fitted.duration.as_secs_f64(),
        "classes": classes,
        "capacity_iops": fitted.capacity.as_f64(),
        "single": class(&fitted.single),
        "single_capacity_iops": fitted.single_capacity.as_f64(),
        "curve": curve,
        "knee_iops": fitted.curve.get(fitted.knee).map(|point| point.capacity.as_f64()),
        "toml": fragment(fitted),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Cost, Time};
    use evenkeel_gateway::config;
    use evenkeel_plan::{MemorySource, parse_targets};
    use std::path::Path;

    #[test]
    fn the_fragment_is_accepted_by_the_configuration() {
        let instants: Vec<Time> = (0..500_u64).map(|n| Time::from_nanos(n / 7 * 9_000_001 + n)).collect();
        for wanted in ["90% 5 ms, 95% 50 ms, 100% 500 ms", "99.9% 3 ms"] {
            let targets = parse_targets(wanted).expect("good");
            let fitted = fit(&MemorySource::at(&instants), &targets, &mut |_| ()).expect("fits");
            let file = format!(
                "[gateway]\nlisten = [\"unix:s.sock\"]\n[store.s]\npath = \"x\"\nscheduler = \"nested\"\n\
                 [volume.v]\noffset = \"0 B\"\nsize = \"1 MiB\"\n{}",
                fragment(&fitted)
            );
            let parsed = config::parse(&file, Path::new("x.toml"));
            let parsed = parsed.unwrap_or_else(|error| panic!("{error}\n{file}"));
            assert_eq!(parsed.volumes[0].slo.classes(), &fitted.classes[..]);
            assert!(fitted.classes[0].burst() >= Cost::ONE);
        }
    }
}
