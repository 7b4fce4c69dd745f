//! Whether a flow's promise was kept, and the one sentence that says so.
//!
//! ```text
//!  a request was missed ────────────────────────> Broken
//!  else one came inside and was answered ───────> Kept
//!  else the flow is a background flow ──────────> NoPromise
//!  else nothing arrived ────────────────────────> Idle
//!  else one was answered, all came outside ─────> OutsideOnly
//!  else they wait or were cancelled ────────────> Unanswered
//! ```

use std::fmt;

use evenkeel_core::{Envelope, Span, Time};

/// Whether the agreement with a flow was kept, over the life of its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every answered request that came inside the envelope was answered in time.
    Kept,
    /// Some were not.
    Broken {
        /// How many.
        missed: u64,
        /// The one that was missed by most.
        worst: Miss,
    },
    /// A background flow: nothing was promised.
    NoPromise,
    /// Nothing arrived.
    Idle,
    /// Requests were answered, but every one had come outside the envelope.
    OutsideOnly,
    /// Requests arrived, but none has been answered: they still wait or were cancelled.
    Unanswered,
}

/// A promise that was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// How much longer than promised the request took.
    pub by: Span,
    /// What was promised.
    pub promise: Span,
    /// When the request was answered.
    pub at: Time,
}

impl Verdict {
    /// The verdict's name in reports: `kept`, `broken`, `no_promise`, `idle`, `outside_only`, `unanswered`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Broken { .. } => "broken",
            Self::NoPromise => "no_promise",
            Self::Idle => "idle",
            Self::OutsideOnly => "outside_only",
            Self::Unanswered => "unanswered",
        }
    }

    /// Whether a promise was made and not kept.
    #[must_use]
    pub const fn is_broken(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }
}

/// The facts on which a verdict rests.
pub(crate) struct Judged {
    pub(crate) envelope: Option<Envelope>,
    pub(crate) changes: u64,
    pub(crate) since: Time,
    pub(crate) offered: u64,
    pub(crate) served: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    pub(crate) promised: u64,
    pub(crate) missed: u64,
    pub(crate) worst: Option<Miss>,
}

/// The verdict and its explanation in one sentence.
pub(crate) fn judge(facts: &Judged) -> (Verdict, String) {
    let answered = facts.served + facts.failed;
    let promised = facts.promised;
    let outside = answered - promised;
    let envelope = described_envelope(facts);
    let aside = aside(facts, if promised > 0 { outside } else { 0 });
    if let (Some(worst), missed @ 1..) = (facts.worst, facts.missed) {
        let text = format!(
            "broken: {missed} of {} inside {envelope} missed it, the worst by {} ({} instead of {}) {} after \
             the account was opened{aside}",
            counted(promised, "request"),
            Rounded(worst.by),
            Rounded(worst.by + worst.promise),
            worst.promise,
            Rounded(worst.at.since(facts.since)),
        );
        return (Verdict::Broken { missed, worst }, text);
    }
    if promised > 0 {
        let requests = counted(promised, "request");
        return (Verdict::Kept, format!("kept: {promised} of {requests} inside {envelope} met it{aside}"));
    }
    if facts.envelope.is_none() {
        let served = counted(facts.served, "request");
        return (Verdict::NoPromise, format!("no promise: background, {served} served{aside}"));
    }
    if answered > 0 {
        let requests = counted(answered, "request");
        let text =
            format!("nothing to judge: {requests} came outside {envelope}, served without a promise{aside}");
        return (Verdict::OutsideOnly, text);
    }
    if facts.offered == 0 && facts.cancelled == 0 {
        return (Verdict::Idle, format!("idle: no request has come yet to be held to {envelope}"));
    }
    let requests = counted(facts.offered.max(facts.cancelled), "request");
    (Verdict::Unanswered, format!("nothing to judge: {requests} came and none has been answered yet{aside}"))
}

fn described_envelope(facts: &Judged) -> String {
    match (facts.envelope, facts.changes) {
        (Some(envelope), 0) => envelope.to_string(),
        (Some(envelope), changes) => {
            format!("the envelope of its time (now {envelope}, changed {})", counted(changes, "time"))
        }
        (None, _) => "the envelope of its time (now none: background)".to_owned(),
    }
}

/// What else befell requests: those outside the envelope, failures, cancellations.
fn aside(facts: &Judged, outside: u64) -> String {
    let mut text = String::new();
    if outside > 0 {
        let was = if outside == 1 { "was" } else { "were" };
        text += &format!("; {outside} came outside and {was} served without a promise");
    }
    if facts.failed > 0 {
        text += &format!("; {} failed at the store", facts.failed);
    }
    if facts.cancelled > 0 {
        text += &format!("; {} cancelled before dispatch", facts.cancelled);
    }
    text
}

fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A span for people: three or four digits and a unit.
struct Rounded(Span);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let (unit, size) = match nanos {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("us", 1_000),
            1_000_000..1_000_000_000 => ("ms", 1_000_000),
            _ => ("s", 1_000_000_000),
        };
        let value = nanos as f64 / size as f64;
        if nanos.is_multiple_of(size) || value >= 1_000.0 {
            write!(f, "{value:.0} {unit}")
        } else if value >= 100.0 {
            write!(f, "{value:.1} {unit}")
        } else {
            write!(f, "{value:.2} {unit}")
        }
    }
}
