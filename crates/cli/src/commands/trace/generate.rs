//! `evenkeel trace generate`: a trace of a workload of the papers.

use clap::Args;
use evenkeel_core::{Span, Time};
use evenkeel_trace::generate::{Generator, Personality};
use serde_json::{Value, json};

use super::input::Progress;
use super::output::OutputArgs;
use super::{Problem, finish, units};
use crate::report::print;
use crate::text_table::{Align, text_table};

const EXIT_CODES: &str = "Exit codes:
  0  done
  2  the output or the command line is wrong; nothing was written

The same workload, seed and options make the same file. docs/traces.md names the source of every parameter.";

/// Options of `evenkeel trace generate`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct GenerateArgs {
    /// The workload, by name; --list shows all
    #[arg(required_unless_present = "list")]
    workload: Option<Personality>,
    /// List the workloads
    #[arg(long, conflicts_with_all = ["workload", "output"])]
    list: bool,
    /// How long the trace is
    #[arg(long, value_name = "TIME", value_parser = units::span, required_unless_present_any = ["requests", "list"])]
    duration: Option<Span>,
    /// How many requests it has at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// The seed: another one makes another trace of the same kind
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Mean rate in requests per second, instead of the workload's own
    #[arg(long, value_name = "N")]
    iops: Option<f64>,
    /// Number of volumes, instead of the workload's own
    #[arg(long, value_name = "N")]
    volumes: Option<u32>,
    /// Size of each volume, instead of the workload's own
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    volume_size: Option<u64>,
    #[command(flatten)]
    output: Option<OutputArgs>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Writes the trace, or lists the workloads; the process's exit code.
pub(super) fn run(args: &GenerateArgs) -> u8 {
    match (&args.workload, &args.output) {
        (Some(workload), Some(output)) => {
            finish(generate(args, *workload, output).map(|(text, object)| (text, object, 0)), args.json)
        }
        (Some(_), None) => {
            let problem = Problem::new(None, "--output is missing", "name the file to write");
            finish(Err(problem), args.json)
        }
        (None, _) => list(args.json),
    }
}

fn generate(
    args: &GenerateArgs,
    workload: Personality,
    output: &OutputArgs,
) -> Result<(String, Value), Problem> {
    let mut parameters = workload.parameters();
    parameters = args.iops.into_iter().fold(parameters, evenkeel_trace::generate::Parameters::with_iops);
    parameters.volumes = args.volumes.unwrap_or(parameters.volumes);
    parameters.volume_bytes = args.volume_size.unwrap_or(parameters.volume_bytes);
    let generator = Generator::new(&parameters, args.seed)
        .map_err(|error| Problem::new(None, error, "change --iops, --volumes or --volume-size"))?;
    let names: Vec<String> = (0..parameters.volumes).map(|number| number.to_string()).collect();
    let end = args.duration.map(|duration| Time::ZERO + duration);
    let most = args.requests.unwrap_or(u64::MAX);
    let mut written = output.begin()?;
    let mut progress = Progress::new(args.json);
    for (number, request) in generator.enumerate() {
        let number = number as u64;
        if number >= most || end.is_some_and(|end| request.at >= end) {
            break;
        }
        progress.step_to(|| match end {
            Some(end) => (request.at.as_nanos(), end.as_nanos()),
            None => (number, most),
        });
        written.write(&request, &names)?;
    }
    drop(progress);
    let (text, mut object) = written.finish()?;
    object["workload"] = json!(workload.name());
    object["seed"] = json!(args.seed);
    Ok((text, object))
}

fn list(json: bool) -> u8 {
    if json {
        let all = Personality::ALL.map(|it| {
            let parameters = it.parameters();
            json!({
                "name": it.name(),
                "summary": it.summary(),
                "iops": parameters.arrivals.iops(),
                "volumes": parameters.volumes,
                "volume_bytes": parameters.volume_bytes,
            })
        });
        print(&format!("{}\n", json!({ "workloads": all })));
    } else {
        let rows = Personality::ALL.map(|it| {
            let parameters = it.parameters();
            let size = units::shown_bytes(parameters.volume_bytes as f64);
            let volumes = format!("{} of {size}", parameters.volumes);
            [
                it.name().to_owned(),
                format!("{:.0}", parameters.arrivals.iops()),
                volumes,
                it.summary().to_owned(),
            ]
        });
        let heads = [
            ("workload", Align::Left),
            ("IOPS", Align::Right),
            ("volumes", Align::Right),
            ("what it is like", Align::Left),
        ];
        print(&text_table(heads, &rows));
    }
    super::WHOLE
}
