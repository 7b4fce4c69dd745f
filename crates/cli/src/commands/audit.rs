//! `evenkeel audit` and `evenkeel explain`: who kept the agreement, whose doing a miss was, and whether the
//! log that says so is the one that was written.
//!
//! ```text
//!  LEDGER ──┬─ audit   ──> per volume: arrivals inside, met, missed; the excess by cause
//!           ├─ verify  ──> the chain holds and the signatures fit, or the first record that is altered
//!           └─ explain ──> sentences about one volume, around one instant
//!  TRACE + --sla FILE ──> the same, as the store of that file would have served the trace
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use evenkeel_audit::{
    Audit, Auditor, Cause, Expected, FlowAudit, Log, LogError, Statement, Verification, explain, from_hex,
    hex, verify,
};
use evenkeel_core::{Span, Time};
use serde_json::{Value, json};

use crate::report::print;
use crate::text_table::{Align, counted, text_table};

const KEPT: u8 = 0;
const BROKEN: u8 = 1;
const BAD_INPUT: u8 = 2;

const EXIT_CODES: &str = "Exit codes:
  0  every promise was kept (audit); the log is as it was written (verify)
  1  a promise was broken (audit); the log was altered, cut or is incomplete (verify)
  2  the log cannot be read or is of another version, or the command line is wrong";

/// Options of `evenkeel audit`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    /// The folder of an audit log, one file of it, or (with --sla) a block trace
    #[arg(required = true)]
    input: Option<PathBuf>,
    /// A configuration: replay the trace through its store, each volume of the trace being the volume of the
    /// same position in the file
    #[arg(long, value_name = "FILE")]
    sla: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Prove that a log is the one that was written, or name the first record that is not
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
struct VerifyArgs {
    /// The folder of an audit log, or one file of it
    ledger: PathBuf,
    /// The public key that it must be signed with: 64 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = public_key)]
    key: Option<[u8; 32]>,
    /// What an earlier verification stated: the log must still hold it
    #[arg(long, value_name = "STATEMENT")]
    expect: Option<Statement>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Options of `evenkeel explain`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes:
  0  explained
  2  there is no such volume, the log cannot be read, or the command line is wrong")]
pub(crate) struct ExplainArgs {
    /// The volume
    volume: String,
    /// The folder of an audit log, or one file of it
    #[arg(long, value_name = "LEDGER")]
    ledger: PathBuf,
    /// The instant, in seconds after the log's first epoch; everything if left out
    #[arg(long, value_name = "SECONDS", value_parser = instant)]
    at: Option<Time>,
    /// How many seconds before and after that instant to look at
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = instant)]
    around: Time,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Audits or verifies; the process's exit code.
pub(crate) fn run(args: &AuditArgs) -> u8 {
    if let Some(AuditCommand::Verify(args)) = &args.command {
        return run_verify(args);
    }
    let Some(input) = &args.input else { return BAD_INPUT };
    let audit = match &args.sla {
        Some(sla) => super::audit_trace::audit_of_trace(input, sla),
        None => audit_of_log(input, Auditor::new()).map_err(|error| {
            let hint = if input.is_file() { "; for a trace, name a configuration with --sla" } else { "" };
            format!("{error}{hint}")
        }),
    };
    let audit = match audit {
        Ok(audit) => audit,
        Err(message) => return failed(&message, args.json),
    };
    if args.json {
        let mut object = audit.to_json();
        object["ok"] = json!(audit.is_kept());
        print(&format!("{object}\n"));
    } else {
        print(&text(&audit, input));
    }
    if audit.is_kept() { KEPT } else { BROKEN }
}

/// Explains; the process's exit code.
pub(crate) fn run_explain(args: &ExplainArgs) -> u8 {
    let around = args.around.since(Time::ZERO);
    let auditor = match args.at {
        Some(at) => Auditor::within(Time::ZERO + (at.since(Time::ZERO) - around), at + around),
        None => Auditor::new(),
    };
    let audit = match audit_of_log(&args.ledger, auditor) {
        Ok(audit) => audit,
        Err(error) => return failed(&error.to_string(), args.json),
    };
    let Some(told) = explain(&audit, &args.volume, args.at) else {
        let known: Vec<&str> = audit.volumes().map(|flow| flow.name.as_str()).collect();
        let message = format!("the log knows no volume {:?}; it knows {}", args.volume, known.join(", "));
        return failed(&message, args.json);
    };
    if args.json {
        let mut object = told.to_json();
        object["volume"] = json!(args.volume);
        print(&format!("{object}\n"));
    } else {
        print(&format!("{}\n", told.sentences.join("\n")));
    }
    KEPT
}

fn audit_of_log(path: &Path, mut auditor: Auditor) -> Result<Audit, LogError> {
    let mut log = Log::open(path)?;
    for event in log.by_ref() {
        auditor.on_event(&event?);
    }
    Ok(auditor.finish(log.signed_until()))
}

fn run_verify(args: &VerifyArgs) -> u8 {
    let expected = Expected { key: args.key, statement: args.expect };
    let verified = match verify(&args.ledger, &expected) {
        Ok(verified) => verified,
        Err(error) => return failed(&error.to_string(), args.json),
    };
    if args.json {
        print(&format!("{}\n", verified_json(&verified)));
    } else {
        print(&verified_text(&verified, args));
    }
    if verified.is_good() { KEPT } else { BROKEN }
}

fn verified_json(verified: &Verification) -> Value {
    let finding = verified.finding.as_ref().map(|finding| {
        json!({
            "file": finding.segment,
            "block": finding.block,
            "offset_bytes": finding.offset,
            "record": finding.record,
            "record_last": finding.last_record(),
            "after_ns": finding.after.map(Time::as_nanos),
            "message": finding.to_string(),
        })
    });
    json!({
        "ok": verified.is_good(),
        "files": verified.files,
        "first_file": verified.first_file,
        "blocks": verified.blocks,
        "first_record": verified.first_record,
        "records": verified.records,
        "checkpoints": verified.checkpoints,
        "key": verified.key.map(|key| hex(&key)),
        "signed_until_ns": verified.signed_until.map(Time::as_nanos),
        "crashed_files": verified.torn,
        "statement": verified.statement.map(|statement| statement.to_string()),
        "finding": finding,
    })
}

fn verified_text(verified: &Verification, args: &VerifyArgs) -> String {
    let mut text = String::new();
    let Verification { files, first_file, first_record, records, checkpoints, .. } = verified;
    let _ = writeln!(
        text,
        "{}: {} from number {first_file}, records {first_record} to {}, {}",
        args.ledger.display(),
        counted(*files, "file"),
        records.saturating_sub(1),
        counted(*checkpoints, "signature")
    );
    if let Some(key) = verified.key {
        let pinned =
            if args.key.is_some() { "as expected" } else { "compare it with the one you were given" };
        let _ = writeln!(text, "signed by {} ({pinned})", hex(&key));
    }
    for file in &verified.torn {
        let _ = writeln!(text, "note: the writer of file {file} crashed; its successor states where");
    }
    match &verified.finding {
        Some(finding) => {
            let _ = writeln!(text, "NOT as written: {finding}");
        }
        None => {
            let _ = writeln!(text, "as written: every record is in the chain, every signature fits");
            if let Some(statement) = verified.statement {
                let _ = writeln!(
                    text,
                    "keep this statement to hold the log against later (--expect):\n{statement}"
                );
            }
        }
    }
    text
}

fn text(audit: &Audit, input: &Path) -> String {
    let mut text = format!("{}: {}\n", input.display(), counted(audit.volumes().count() as u64, "volume"));
    let heads = [
        ("volume", Align::Left),
        ("class", Align::Left),
        ("inside", Align::Right),
        ("met", Align::Right),
        ("missed", Align::Right),
        ("outside", Align::Right),
    ];
    let rows: Vec<[String; 6]> = audit.volumes().flat_map(rows).collect();
    text += &text_table(heads, &rows);
    for flow in audit.volumes() {
        let _ = writeln!(text, "{}{}: {}", kind(flow), flow.name, flow.account.explanation);
        if flow.missed() > 0 {
            text += &blame_text(audit, flow);
        }
    }
    for (at, records) in &audit.gaps {
        let at = at.since(Time::ZERO).as_secs_f64();
        let _ = writeln!(
            text,
            "INCOMPLETE: {records} requests are missing before {at:.3} s; the writer could not keep up"
        );
    }
    for (at, words) in &audit.changes {
        let _ = writeln!(text, "operator: {words} at {:.3} s", at.since(Time::ZERO).as_secs_f64());
    }
    text
}

fn rows(flow: &FlowAudit) -> Vec<[String; 6]> {
    let slo = &flow.account.slo;
    let outside = flow.outside.to_string();
    if flow.classes.is_empty() {
        let dash = || "-".to_owned();
        return vec![[flow.name.clone(), "background".to_owned(), dash(), dash(), dash(), outside]];
    }
    let row = |(index, counts): (usize, &evenkeel_audit::ClassCounts)| {
        let class = slo.classes().get(index).map_or("(no longer)".to_owned(), ToString::to_string);
        let name = if index == 0 { format!("{}{}", kind(flow), flow.name) } else { String::new() };
        let outside = if index == 0 { outside.clone() } else { String::new() };
        [name, class, counts.arrivals.to_string(), counts.met.to_string(), counts.missed.to_string(), outside]
    };
    flow.classes.iter().enumerate().map(row).collect()
}

fn kind(flow: &FlowAudit) -> &'static str {
    if flow.is_group { "group " } else { "" }
}

fn blame_text(audit: &Audit, flow: &FlowAudit) -> String {
    let blame = &flow.blame;
    let mut text = format!("  late by {} in all, of which\n", ms(blame.excess));
    let mut line = |part: Span, words: &str| {
        if part > Span::ZERO {
            let _ = writeln!(text, "    {:>14}  {words}", ms(part));
        }
    };
    line(blame.client, "client outside its envelope");
    line(blame.others_total(), "other tenants");
    for (other, turns) in &blame.others {
        let outside = if turns.outside > Span::ZERO {
            format!(", {} of it outside its envelope", ms(turns.outside))
        } else {
            String::new()
        };
        line(turns.all, &format!("  {}{outside}", audit.name_of(*other)));
    }
    line(blame.device, "device slower than its profile");
    line(blame.operator(), "operator");
    line(blame.changed, "  turns of others after a change");
    line(blame.held, "  held back while the store had nothing");
    line(blame.infeasible, "  promise beyond the stated capacity");
    line(blame.unseen, "not known");
    let causes: Vec<String> = (flow.misses_by_cause.iter())
        .map(|(cause, misses): (&Cause, &u64)| format!("{misses} {}", cause.words()))
        .collect();
    let _ = writeln!(text, "  misses by their largest cause: {}", causes.join(", "));
    text
}

fn ms(span: Span) -> String {
    let nanos = span.as_nanos();
    format!("{}.{:06} ms", nanos / 1_000_000, nanos % 1_000_000)
}

fn failed(message: &str, json: bool) -> u8 {
    if json {
        print(&format!("{}\n", json!({ "ok": false, "message": message })));
    }
    eprintln!("evenkeel: {message}");
    BAD_INPUT
}

fn public_key(text: &str) -> Result<[u8; 32], String> {
    from_hex(text).ok_or_else(|| "a public key has 64 hexadecimal digits".to_owned())
}

/// Seconds with up to nine decimals, exactly.
fn instant(text: &str) -> Result<Time, String> {
    const FORM: &str = "write seconds with at most nine decimals, such as 12.5";
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 9 {
        return Err(FORM.to_owned());
    }
    let nanos = format!("{part:0<9}").parse::<u64>().map_err(|_| FORM)?;
    let whole = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(1_000_000_000));
    whole.and_then(|whole| whole.checked_add(nanos)).map(Time::from_nanos).ok_or_else(|| FORM.to_owned())
}
