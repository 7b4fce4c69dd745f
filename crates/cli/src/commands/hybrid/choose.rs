//! `evenkeel hybrid choose`: the first pass of the offline scheme, over a trace.
//!
//! ```text
//!  trace: volume, offset ──> offset in the store ──> Profile ──choose──> placement file
//!                              │                        ^
//!         volumes of the store ┘    four access times ──┘
//! ```
//! Source: Jain 2008, sections 3.3.1 and 4.2.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_core::{FlowId, Operation, Span};
use evenkeel_gateway::config::{Placement, ShownBytes, VolumeConfig};
use evenkeel_hybrid::{MapFile, OfflineError};
use evenkeel_plan::{FileSource, Source};
use evenkeel_tiering::policy::Profile;
use evenkeel_tiering::{AccessTimes, Geometry};
use serde_json::json;

use super::{FINE, REFUSED, Said, Store, Which, failure, shown};
use crate::text_table::counted;

/// Options of `evenkeel hybrid choose`.
#[derive(Debug, Args)]
pub(super) struct ChooseArgs {
    #[command(flatten)]
    pub(super) which: Which,
    /// What is sent to the volumes
    trace: PathBuf,
    /// The placement to write; an existing file is not overwritten
    #[arg(short, long, visible_alias = "output", value_name = "FILE")]
    out: PathBuf,
    /// How long the slow device takes for a random read
    #[arg(long, value_name = "TIME", value_parser = time)]
    slow_read: Span,
    /// How long the slow device takes for a random write
    #[arg(long, value_name = "TIME", value_parser = time)]
    slow_write: Span,
    /// How long the fast device takes for a read
    #[arg(long, value_name = "TIME", value_parser = time)]
    fast_read: Span,
    /// How long the fast device takes for a write, worn in as it will be
    #[arg(long, value_name = "TIME", value_parser = time)]
    fast_write: Span,
    /// A cluster with this share of sequential requests, in percent, or more stays on the slow device
    #[arg(long, default_value_t = 50, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    sequential_max: u32,
}

/// Chooses, and writes the placement.
pub(super) fn choose(args: &ChooseArgs, store: &Store<'_>) -> Result<Said, OfflineError> {
    let map = MapFile::open(&store.paths.map)?;
    let about = *map.about();
    drop(map);
    let geometry = Geometry::new(about.cluster_bytes, about.block_bytes)?;
    let volumes: Vec<&VolumeConfig> = store.config.volumes_of(store.index).collect();
    let profile = match profile_of(&args.trace, geometry, &volumes) {
        Ok(profile) => profile,
        Err(message) => return Ok(failure(&message, REFUSED)),
    };
    let times = AccessTimes {
        disk_random_read: args.slow_read,
        disk_random_write: args.slow_write,
        flash_read: args.fast_read,
        flash_write: args.fast_write,
        flash_write_slope: Span::ZERO,
        flash_write_max: args.fast_write,
    };
    let slots = geometry.slots(about.fast_bytes);
    let mut chosen = profile.choose(slots, args.sequential_max, &times, 0);
    chosen.sort_unstable();
    let (reads, writes) = profile.accesses_of(chosen.iter().copied());
    let (all_reads, all_writes) = profile.accesses();
    let placement =
        Placement { path: args.out.clone(), cluster_bytes: about.cluster_bytes, clusters: chosen.into() };
    if let Err(error) = write_new(&args.out, &placement.to_toml()) {
        return Ok(failure(&error, REFUSED));
    }
    let (count, touched) = (placement.clusters.len(), profile.clusters());
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let text = format!(
        "store {}: {} of {} chosen, of {touched} that the trace touches and {slots} that fit: {} on the fast device\n\
         \x20 {:.1} % of the reads and {:.1} % of the writes go there\n\
         \x20 to use it: hybrid = {{ …, policy = \"offline\", placement = \"{}\" }}\n",
        store.store.name,
        counted(count as u64, "cluster"),
        ShownBytes(u64::from(about.cluster_bytes)),
        shown(count as u64 * u64::from(about.cluster_bytes)),
        percent(reads, all_reads),
        percent(writes, all_writes),
        args.out.display(),
    );
    let json = json!({
        "ok": true, "store": store.store.name, "placement": args.out, "cluster_bytes": about.cluster_bytes,
        "chosen": count, "touched": touched, "slots": slots, "reads": reads, "writes": writes,
        "reads_all": all_reads, "writes_all": all_writes,
    });
    Ok(Said { text, json, code: FINE })
}

/// What the trace does to each cluster of the store.
fn profile_of(trace: &Path, geometry: Geometry, volumes: &[&VolumeConfig]) -> Result<Profile, String> {
    let name = trace.display();
    let source = FileSource::new(trace, None);
    let mut profile = Profile::new(geometry);
    for (number, request) in (1_u64..).zip(source.sorted().map_err(|error| error.to_string())?) {
        let request = request.map_err(|error| error.to_string())?;
        let Some(volume) = volumes.get(request.volume as usize) else {
            let (asked, known) = (request.volume, counted(volumes.len() as u64, "volume"));
            return Err(format!(
                "{name}: request {number} goes to volume {asked}, and the store has {known}, from 0; add one to the \
                 configuration, or cut the trace with `evenkeel trace slice`"
            ));
        };
        let (size, end) =
            (volume.size.unwrap_or(u64::MAX), request.offset.saturating_add(request.length.into()));
        if end > size {
            return Err(format!(
                "{name}: request {number} ends at byte {end}, and volume {} at {size}; make the volume as large as \
                 the traced one",
                volume.name
            ));
        }
        if request.operation != Operation::Flush && request.length > 0 {
            let (is_write, offset) = (request.operation != Operation::Read, volume.offset + request.offset);
            profile.observe(FlowId(request.volume), is_write, offset, request.length);
        }
    }
    if profile.clusters() == 0 {
        return Err(format!("{name}: the trace holds no request"));
    }
    Ok(profile)
}

fn write_new(path: &Path, text: &str) -> Result<(), String> {
    let written = File::create_new(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{}: the file exists; name another with --out, or remove it", path.display())
        }
        _ => format!("{}: cannot write: {error}", path.display()),
    })
}

fn time(text: &str) -> Result<Span, String> {
    evenkeel_strict::values::span(text).map_err(|fault| format!("{}; {}", fault.message, fault.remedy))
}
