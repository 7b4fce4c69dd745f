//! "Was I throttled, or is the storage slow?", answered in sentences.

use evenkeel_core::{FlowId, Span, Time};
use serde_json::{Value, json};

use crate::blame::{Blame, Cause};
use crate::report::{Audit, FlowAudit, promise};

/// What happened to one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The answer in a word: `kept`, `throttled`, `slow`, `crowded`, `operator`, `idle`, `unpromised`.
    pub answer: &'static str,
    /// What happened, whose doing it was and what to change: one sentence each.
    pub sentences: Vec<String>,
}

impl Explanation {
    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "answer": self.answer, "sentences": self.sentences })
    }
}

/// Explains what happened to the volume `name` in `audit`, which covers a window or everything; `None` if
/// there is no such volume. `at` names the instant that the window is around.
#[must_use]
pub fn explain(audit: &Audit, name: &str, at: Option<Time>) -> Option<Explanation> {
    let flow = audit.volumes().find(|flow| flow.name == name)?;
    let mut sentences = vec![what_happened(flow, name, at)];
    let (count, waited, served) = flow.answered;
    if count == 0 {
        return Some(Explanation { answer: "idle", sentences });
    }
    sentences.push(format!(
        "On average a request waited {} for its turn, and then the store took {}.",
        shown(mean(waited, count)),
        shown(mean(served, count))
    ));
    let answer = if flow.missed() > 0 {
        blamed(audit, flow, &mut sentences)
    } else if flow.account.slo.is_background() {
        sentences.push("The volume is promised nothing: it gets what the others leave.".to_owned());
        sentences.push("To change that, give it an sla; `evenkeel plan fit` finds one.".to_owned());
        "unpromised"
    } else if flow.outside > 0 {
        throttled(flow, &mut sentences);
        "throttled"
    } else {
        sentences.push("Every promise was kept; there is nothing to change.".to_owned());
        "kept"
    };
    let changes: Vec<String> = audit
        .changes
        .iter()
        .map(|(when, words)| format!("{words} at {}", shown(when.since(Time::ZERO))))
        .collect();
    if !changes.is_empty() {
        sentences.push(format!("The operator made changes: {}.", changes.join("; ")));
    }
    Some(Explanation { answer, sentences })
}

fn what_happened(flow: &FlowAudit, name: &str, at: Option<Time>) -> String {
    let when = at.map_or(String::new(), |at| format!(" around {}", shown(at.since(Time::ZERO))));
    let (answered, ..) = flow.answered;
    if answered == 0 {
        return format!("No request of {name} was answered{when}.");
    }
    let (inside, missed) = (flow.inside(), flow.missed());
    let promised = promise(&flow.account.slo);
    let failed =
        if flow.failed > 0 { format!(" {} failed at the store.", flow.failed) } else { String::new() };
    format!(
        "{name} is promised {promised}. Of its {answered} requests{when}, {inside} came inside and {} outside; \
         {missed} of those inside missed their latency.{failed}",
        flow.outside
    )
}

/// Sentences about misses; the answer.
fn blamed(audit: &Audit, flow: &FlowAudit, sentences: &mut Vec<String>) -> &'static str {
    let blame = &flow.blame;
    let percent = |part: Span| {
        let share = u128::from(part.as_nanos()) * 1_000 / u128::from(blame.excess.as_nanos().max(1));
        format!("{}.{} %", share / 10, share % 10)
    };
    let mut parts = Vec::new();
    let causes = [
        (blame.client, "its own requests outside the envelope"),
        (blame.device, "the device being slower than its stated capacity"),
        (blame.changed, "turns of others after a change by the operator"),
        (blame.held, "a limit or the scheduler, which held it back while the store had nothing to do"),
        (blame.infeasible, "a promise that the stated capacity cannot keep"),
        (blame.unseen, "causes too far back to tell"),
    ];
    for (part, words) in causes {
        if part > Span::ZERO {
            parts.push((part, format!("{} to {words}", percent(part))));
        }
    }
    for (other, turns) in &blame.others {
        let mut words = format!("{} to {}", percent(turns.all), audit.name_of(*other));
        if turns.outside > Span::ZERO {
            words += &format!(" ({} of it sent outside its own envelope)", shown(turns.outside));
        }
        parts.push((turns.all, words));
    }
    parts.sort_by_key(|(part, _)| std::cmp::Reverse(*part));
    let listed: Vec<String> = parts.into_iter().map(|(_, words)| words).take(6).collect();
    sentences.push(format!(
        "The requests that missed were late by {} in all: {}.",
        shown(blame.excess),
        listed.join(", ")
    ));
    let (answer, advice) = advice(audit, blame);
    sentences.push(advice);
    answer
}

fn advice(audit: &Audit, blame: &Blame) -> (&'static str, String) {
    match blame.principal() {
        Some(Cause::Client) => (
            "throttled",
            "It was its own doing: raise its burst or rate if the capacity allows (`evenkeel plan what-if`), or \
             let the client send less at once."
                .to_owned(),
        ),
        Some(Cause::Device) => (
            "slow",
            "The storage was slow: state the capacity that the device really has, so that promises fit it, or \
             look after the device."
                .to_owned(),
        ),
        Some(Cause::Others) => {
            let bully = blame.others.iter().max_by_key(|(_, turns)| turns.all).map_or(FlowId(0), |(flow, _)| *flow);
            let who = audit.name_of(bully);
            let isolating = matches!(audit.scheduler.as_deref(), Some("pclock" | "nested"));
            let advice = match &audit.scheduler {
                Some(name) if !isolating => {
                    format!("It was crowded out, mostly by {who}: scheduler \"{name}\" holds nobody off; use \"pclock\".")
                }
                _ => format!(
                    "It was crowded out, mostly by {who}: the promises together may not fit the capacity \
                     (`evenkeel check`), or the depth at the device is too large."
                ),
            };
            ("crowded", advice)
        }
        Some(Cause::Operator) => (
            "operator",
            "It was the operator's doing: lift the limit, or promise no more than the capacity keeps \
             (`evenkeel plan what-if` finds the smallest change)."
                .to_owned(),
        ),
        Some(Cause::Unseen) | None => ("slow", "The cause lies too far back to tell.".to_owned()),
    }
}

fn throttled(flow: &FlowAudit, sentences: &mut Vec<String>) {
    sentences.push(format!(
        "Nothing that was promised was missed. {} requests came outside the envelope and waited {} each on \
         average: that is the volume's own doing, not the storage's.",
        flow.outside,
        shown(mean(flow.waited_outside, flow.outside))
    ));
    sentences.push(
        "If they should be fast as well, raise the volume's burst or rate (`evenkeel plan fit` finds them)."
            .to_owned(),
    );
}

fn mean(sum: Span, count: u64) -> Span {
    Span::from_nanos(sum.as_nanos() / count.max(1))
}

/// A span for people.
fn shown(span: Span) -> String {
    let nanos = span.as_nanos() as f64;
    match span.as_nanos() {
        0..1_000 => format!("{nanos:.0} ns"),
        1_000..1_000_000 => format!("{:.1} us", nanos / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanos / 1e6),
        _ => format!("{:.2} s", nanos / 1e9),
    }
}
