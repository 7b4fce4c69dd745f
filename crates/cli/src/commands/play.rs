//! `evenkeel play`: a trace against an NBD server, each request at its instant.
//!
//! ```text
//!  TRACE ──> reader ──> time ÷ speed ──> writes? ──> player ── NBD ──> any server
//!                                         └ refused unless told otherwise: they destroy data
//! ```

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use evenkeel_core::{Operation, Span};
use evenkeel_trace::transform::{Factor, Scale};
use evenkeel_trace::{ErrorKind, Format, Options, TraceRequest, open};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::live::player::{self, Address, Played};
use crate::report::{print, print_error};

const EXIT_CODES: &str = "Exit codes:
  0  every request was done
  1  the server answered some with errors
  2  the trace or the command line is wrong, or the server cannot be reached or went away

Latency counts from the moment a request is sent. Addresses are taken modulo the export's size, and go out to the
512 bytes around. A request whose instant has come is sent whatever has been answered, up to 65536 under way.";

/// Options of `evenkeel play`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct PlayArgs {
    /// The trace, in any format that `evenkeel trace formats` lists
    trace: PathBuf,
    /// The server: `nbd://HOST[:PORT]/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`
    #[arg(long, value_name = "URI", value_parser = target)]
    to: Target,
    /// How many times as fast: 2 halves all times, 0.5 and 1/3 slow down
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    speed: Factor,
    /// At most so many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// What becomes of writes, trims and zeroing, which destroy what the export holds
    #[arg(long, value_enum, default_value_t = Writes::Refuse)]
    writes: Writes,
    /// The trace's format, instead of recognising it
    #[arg(long, value_name = "NAME")]
    format: Option<Format>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Writes {
    /// A trace that has any is an error
    Refuse,
    /// They are sent, with zeros
    Send,
    /// They are read instead
    AsReads,
}

/// Where to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) address: Address,
    pub(super) export: String,
}

/// The port of NBD.
const PORT: u16 = 10809;

/// Reads the address of an export.
pub(super) fn target(text: &str) -> Result<Target, String> {
    let form = "write nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH";
    if let Some(rest) = text.strip_prefix("nbd+unix:///") {
        let (export, socket) = rest.split_once("?socket=").ok_or(form)?;
        let socket = Some(socket).filter(|socket| !socket.is_empty()).ok_or(form)?;
        return Ok(Target { address: Address::Unix(socket.into()), export: export.to_owned() });
    }
    let rest = text.strip_prefix("nbd://").ok_or(form)?;
    let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => {
            (name, port.parse().map_err(|_| format!("{port:?} is no port; {form}"))?)
        }
        _ => (host, PORT),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() {
        return Err(form.to_owned());
    }
    Ok(Target { address: Address::Tcp(host.to_owned(), port), export: export.to_owned() })
}

/// Plays the trace; the process's exit code.
pub(crate) fn run(args: &PlayArgs) -> u8 {
    match played(args) {
        Ok(played) => {
            print(&if args.json { as_json(&played) } else { as_text(&played) });
            u8::from(played.refused > 0)
        }
        Err(error) => {
            print_error(&format!("error: {error}\n"));
            2
        }
    }
}

fn played(args: &PlayArgs) -> io::Result<Played> {
    let options = Options { format: args.format, ..Options::default() };
    let told = |error: evenkeel_trace::TraceError| {
        let remedy = error.remedy();
        // Of the options of `evenkeel trace`, this command has one.
        let is_option = remedy.contains(" --") && !matches!(error.kind(), ErrorKind::Ambiguous(_));
        let where_to = if is_option { ", in `evenkeel trace convert`" } else { "" };
        io::Error::other(format!("{error}; {remedy}{where_to}"))
    };
    let reader = open(&args.trace, &options).map_err(told)?;
    let scale = Scale { speed: args.speed, fit: None };
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} requests, {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(250));
    let requests = reader.map(|request| {
        let request = scale.apply(&request.map_err(told)?).map_err(io::Error::other)?;
        bar.inc(1);
        allowed(request, args.writes)
    });
    let limit = args.count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let played = player::play(&args.to.address, &args.to.export, Instant::now(), requests.take(limit));
    bar.finish_and_clear();
    played
}

fn allowed(request: TraceRequest, writes: Writes) -> io::Result<TraceRequest> {
    match (request.operation, writes) {
        (Operation::Read | Operation::Flush, _) | (_, Writes::Send) => Ok(request),
        (_, Writes::AsReads) => Ok(TraceRequest { operation: Operation::Read, ..request }),
        (_, Writes::Refuse) => {
            let at = Span::from_nanos(request.at.as_nanos());
            Err(io::Error::other(format!(
                "the trace writes, at {at}, which would destroy what the export holds; \
                 give --writes send to do so, or --writes as-reads"
            )))
        }
    }
}

fn as_json(played: &Played) -> String {
    let value = json!({
        "sent": played.sent,
        "done": played.latencies_us.len(),
        "refused": played.refused,
        "lasted_s": played.lasted.as_secs_f64(),
        "latency_mean_us": played.mean_us(),
        "latency_p50_us": played.latency_us(500),
        "latency_p99_us": played.latency_us(990),
        "latency_p999_us": played.latency_us(999),
        "latency_max_us": played.latency_us(1000),
        "sent_late_max_us": played.late_us_max,
    });
    format!("{value:#}\n")
}

fn as_text(played: &Played) -> String {
    let ms = |thousandths| played.latency_us(thousandths) as f64 / 1e3;
    format!(
        "{} requests in {:.1} s, {} refused\nlatency, ms: mean {:.2}, p50 {:.2}, p99 {:.2}, p99.9 {:.2}, max {:.2}\n\
         sent late by at most {:.2} ms\n",
        played.sent,
        played.lasted.as_secs_f64(),
        played.refused,
        played.mean_us() / 1e3,
        ms(500),
        ms(990),
        ms(999),
        ms(1000),
        played.late_us_max as f64 / 1e3
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_uri() {
        let tcp = |host: &str, port, export: &str| {
            Ok(Target { address: Address::Tcp(host.to_owned(), port), export: export.to_owned() })
        };
        assert_eq!(target("nbd://host/v"), tcp("host", 10809, "v"));
        assert_eq!(target("nbd://host:99"), tcp("host", 99, ""));
        assert_eq!(target("nbd://[::1]:99/v"), tcp("::1", 99, "v"));
        assert_eq!(target("nbd://[::1]/v"), tcp("::1", 10809, "v"));
        let unix = Target { address: Address::Unix("/run/s".into()), export: "v".to_owned() };
        assert_eq!(target("nbd+unix:///v?socket=/run/s"), Ok(unix));
        for wrong in ["http://x", "nbd://", "nbd://host:port/v", "nbd+unix:///v", "nbd+unix:///v?socket="] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }
}
