//! `evenkeel trace merge`: several traces in, one out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_trace::TraceRequest;
use evenkeel_trace::transform::Merge;
use serde_json::Value;

use super::input::{InputArgs, Progress};
use super::output::OutputArgs;
use super::{EXIT_CODES, Problem, finish, warn_malformed};

/// Options of `evenkeel trace merge`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct MergeArgs {
    /// The traces; each begins at time 0
    #[arg(required = true, num_args = 2..)]
    files: Vec<PathBuf>,
    /// Volumes of the same name in different files are the same volume; otherwise names get the file's
    /// name in front
    #[arg(long)]
    same_volumes: bool,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Merges the traces; the process's exit code.
pub(super) fn run(args: &MergeArgs) -> u8 {
    finish(merge(args), args.json)
}

fn merge(args: &MergeArgs) -> Result<(String, Value, u64), Problem> {
    let mut output = args.output.begin()?;
    let readers = args.files.iter().map(|file| args.input.open(file)).collect::<Result<Vec<_>, _>>()?;
    let mut merged = Merge::new(readers);
    let mut volumes = Volumes::new(args);
    let mut progress = Progress::new(args.json);
    while let Some(next) = merged.next() {
        let (source, request) = next?;
        let readers = merged.sources();
        progress.step_to(|| {
            let places = readers.iter().map(evenkeel_trace::Reader::progress);
            places.fold((0, 0), |sum, place| (sum.0 + place.0, sum.1 + place.1))
        });
        let volume = volumes.number(source, request.volume, readers[source].volumes());
        output.write(&TraceRequest { volume, ..request }, &volumes.names)?;
    }
    drop(progress);
    let malformed = merged.sources().iter().map(|reader| warn_malformed(reader, args.json)).sum();
    let (text, object) = output.finish()?;
    Ok((text, object, malformed))
}

/// The volumes of the merged trace.
struct Volumes {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// For each source, the new number of each of its volumes.
    of_source: Vec<Vec<Option<u32>>>,
    /// What goes before the names of each source.
    prefixes: Vec<String>,
}

impl Volumes {
    fn new(args: &MergeArgs) -> Self {
        let prefix = |(number, file): (usize, &PathBuf)| {
            if args.same_volumes { String::new() } else { format!("{}:", stem(&args.files, number, file)) }
        };
        let prefixes = args.files.iter().enumerate().map(prefix).collect();
        let of_source = vec![Vec::new(); args.files.len()];
        Self { names: Vec::new(), numbers: HashMap::new(), of_source, prefixes }
    }

    fn number(&mut self, source: usize, volume: u32, names: &[String]) -> u32 {
        let known = &mut self.of_source[source];
        let volume = volume as usize;
        if known.len() <= volume {
            known.resize(volume + 1, None);
        }
        if let Some(number) = known[volume] {
            return number;
        }
        let name = format!("{}{}", self.prefixes[source], names[volume]);
        let next = self.names.len() as u32;
        let number = *self.numbers.entry(name.clone()).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        known[volume] = Some(number);
        number
    }
}

/// The file's name up to its first dot, with its number where two files share it.
fn stem(files: &[PathBuf], number: usize, file: &Path) -> String {
    let short = |file: &Path| {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.split('.').next().unwrap_or_default().to_owned()
    };
    let name = short(file);
    let shared = files.iter().filter(|other| short(other) == name).count() > 1;
    if shared { format!("{name}#{}", number + 1) } else { name }
}
