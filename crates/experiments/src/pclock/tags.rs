//! Examples I and II (figure 4): the tags themselves, from the scheduler alone on a server of 100 IOPS.

use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::{
    Arrival, Completion, ConfigureError, Cost, Decision, Envelope, FlowId, Operation, Outcome, Rate, Request,
    RequestId, Scheduler, Slo, Span, Ticket, Time,
};
use evenkeel_report::figure::{Lines, Series};

use crate::study::{Figure, number};
use crate::{Check, Context, ExperimentError, Study};

const F_A: FlowId = FlowId(0);
const F_B: FlowId = FlowId(1);
/// One request on the server of the examples.
const SERVICE_MS: u64 = 10;

/// A request that was dispatched; times in ms.
struct Sent {
    flow: FlowId,
    arrived: u64,
    at: u64,
    finish_tag: u64,
}

pub(super) fn example_1(_context: &Context) -> Result<Study, ExperimentError> {
    let mut arrivals: Vec<(u64, FlowId)> = (0..50).map(|k| (20 * k, F_A)).collect();
    arrivals.extend([0, 500].iter().flat_map(|&at| std::iter::repeat_n((at, F_B), 25)));
    let sent = dispatched(&mut PClock::new(), arrivals)?;
    let of = |flow: FlowId| sent.iter().filter(move |request| request.flow == flow);
    let mut study = Study::default();
    let even = of(F_A).zip(0..).all(|(request, k)| request.finish_tag == 500 + 20 * k);
    study.check(Check::that(
        "f_A: finish tags 500, 520, 540, … ms",
        even,
        format!("{} tags", of(F_A).count()),
    ));
    for (burst, tag) in [(0, 250), (500, 750)] {
        let tags: Vec<u64> = of(F_B).filter(|it| it.arrived == burst).map(|it| it.finish_tag).collect();
        let equal = tags.len() == 25 && tags.iter().all(|it| *it == tag);
        study.check(Check::that(
            format!("f_B: the 25 requests of {burst} ms all have the finish tag {tag} ms"),
            equal,
            format!("{} requests, tags {:?} to {:?}", tags.len(), tags.iter().min(), tags.iter().max()),
        ));
        let last =
            of(F_B).filter(|it| it.arrived == burst).map(|it| it.at + SERVICE_MS).max().unwrap_or(u64::MAX);
        study.check(Check::at_most(
            format!("f_B: the burst of {burst} ms is over by its tag"),
            last as f64,
            tag as f64,
            "ms",
        ));
    }
    let before = of(F_A).filter(|it| it.finish_tag <= 750).count();
    let served = of(F_A).filter(|it| it.at < 500).count();
    study.check(Check::that(
        "The first burst is served before any request of f_A",
        of(F_A).all(|it| it.at >= 250),
        format!("f_A is first served at {} ms", of(F_A).map(|it| it.at).min().unwrap_or(0)),
    ));
    study.table(
        "Requests of f_A ahead of the second burst",
        &["", "paper", "ours"],
        vec![
            vec!["with finish tags up to 750 ms".to_owned(), "12".to_owned(), before.to_string()],
            vec!["served before it came".to_owned(), "–".to_owned(), served.to_string()],
        ],
    );
    study.note(
        "The tags 500, 520, …, 740 ms are 13, one more than the paper counts. The server has nothing but f_A to do \
         from 250 to 500 ms, so 25 of its requests have gone when the second burst comes.",
    );
    study.figures.push(figure("Example I: finish tags under pClock", &sent)?);
    Ok(study)
}

pub(super) fn example_2(_context: &Context) -> Result<Study, ExperimentError> {
    let mut arrivals = vec![(0, F_A); 100];
    arrivals.extend((0..50).map(|k| (1000 + 20 * k, F_A)));
    arrivals.extend([(1000, F_B); 25]);
    arrivals.extend((1..50).map(|k| (1000 + 20 * k, F_B)));
    let pclock = dispatched(&mut PClock::new(), arrivals.clone())?;
    let sced = dispatched(&mut Sced::new(), arrivals)?;
    let first = |sent: &[Sent], flow: FlowId, from: u64| {
        sent.iter()
            .filter(|it| it.flow == flow && it.arrived >= from)
            .map(|it| (it.finish_tag as f64, it.at as f64))
            .next()
    };
    let missing = || ExperimentError::Other("a request was never dispatched".to_owned());
    let (shifted, shifted_at) = first(&pclock, F_A, 1000).ok_or_else(missing)?;
    let (kept, kept_at) = first(&sced, F_A, 1000).ok_or_else(missing)?;
    let tags_b: Vec<u64> = pclock.iter().filter(|it| it.flow == F_B).map(|it| it.finish_tag).collect();
    let mut study = Study::default();
    study
        .check(Check::near(
            "Without the shift (SCED) the finish tag of f_A's request of 1 s",
            kept,
            2500.0,
            0.0,
            "ms",
        ))
        .check(Check::near("pClock shifts it to", shifted, 1500.0, 0.0, "ms"))
        .check(Check::that(
            "f_B has 25 finish tags of 1250 ms, then 1270, 1290, …",
            tags_b.iter().zip(0_u64..).all(|(tag, k)| *tag == 1250 + 20 * k.saturating_sub(24)),
            format!("{} tags from {:?} to {:?}", tags_b.len(), tags_b.iter().min(), tags_b.iter().max()),
        ))
        .check(Check::that(
            "Without the shift f_A gets nothing while anything of f_B waits",
            sced.iter()
                .filter(|it| it.flow == F_B && (it.arrived as f64) < kept_at)
                .all(|it| (it.at as f64) < kept_at),
            format!("f_A's turn comes at {} ms", number(kept_at)),
        ))
        .check(Check::that(
            "With it f_A's turn comes as soon as f_B's tags reach 1500 ms, though f_B waits",
            pclock
                .iter()
                .filter(|it| it.flow == F_B && (it.arrived as f64) < shifted_at)
                .any(|it| (it.at as f64) > shifted_at)
                && pclock
                    .iter()
                    .filter(|it| it.flow == F_B)
                    .all(|it| (it.finish_tag < 1500) == ((it.at as f64) < shifted_at)),
            format!("f_A's turn comes at {} ms", number(shifted_at)),
        ));
    example_2_table(&mut study, [kept, shifted, kept_at, shifted_at]);
    study.note(
        "Evenkeel also shifts before each dispatch, so f_A's tags never run ahead by as much as 1000 ms: the shift \
         comes in small steps while f_A is alone. What counts is the tag that it has when f_B comes, and that is the \
         paper's.",
    );
    study.figures.push(figure("Example II: finish tags under pClock", &pclock)?);
    study.figures.push(figure("Example II: finish tags under SCED", &sced)?);
    Ok(study)
}

/// Tags without and with the shift, then the instants of dispatch.
fn example_2_table(study: &mut Study, ours: [f64; 4]) {
    let row = |what: &str, paper: &str, ours: f64| vec![what.to_owned(), paper.to_owned(), number(ours)];
    study.table(
        "f_A's request of 1 s, ms",
        &["", "paper", "ours"],
        vec![
            row("finish tag without the shift", "2500", ours[0]),
            row("finish tag with it", "1500", ours[1]),
            row("dispatched without the shift at", "when f_B's tags reach 2500", ours[2]),
            row("dispatched with it at", "when f_B's tags reach 1500", ours[3]),
        ],
    );
}

/// Drives `scheduler` with two flows ⟨0, 50/s, 500 ms⟩ and ⟨25, 50/s, 250 ms⟩.
fn dispatched(
    scheduler: &mut dyn Scheduler,
    mut arrivals: Vec<(u64, FlowId)>,
) -> Result<Vec<Sent>, ExperimentError> {
    let other = |error: ConfigureError| ExperimentError::Other(error.to_string());
    for (flow, burst, latency) in [(F_A, 0, 500), (F_B, 25, 250)] {
        let envelope = Envelope::new(Cost::requests(burst), Rate::per_second(50), Span::from_millis(latency))
            .map_err(|error| ExperimentError::Other(error.to_string()))?;
        scheduler.configure(Time::ZERO, flow, &Slo::guaranteed(envelope)).map_err(other)?;
    }
    arrivals.sort_by_key(|(at, flow)| (*at, flow.0));
    let mut coming = arrivals.into_iter().zip(1..).peekable();
    let mut sent = Vec::new();
    let mut now = 0;
    loop {
        while let Some(((at, flow), id)) = coming.next_if(|((at, _), _)| *at <= now) {
            arrive(scheduler, at, flow, id)?;
        }
        let millis = |time: Time| time.as_nanos() / 1_000_000;
        match scheduler.poll_dispatch(Time::from_nanos(now * 1_000_000)) {
            Decision::Dispatch(it) => {
                sent.push(Sent {
                    flow: it.request.flow,
                    arrived: millis(it.arrival),
                    at: now,
                    finish_tag: it.finish_tag.map_or(0, millis),
                });
                let over = Completion::new(Ticket::from_bits(it.request.id.0), Outcome::Done);
                // Arrivals during the service are told at their own time, before its end.
                while let Some(((at, flow), id)) = coming.next_if(|((at, _), _)| *at < now + SERVICE_MS) {
                    arrive(scheduler, at, flow, id)?;
                }
                now += SERVICE_MS;
                scheduler.on_completion(Time::from_nanos(now * 1_000_000), &it.request, &over);
            }
            _ => match coming.peek() {
                Some(((at, _), _)) => now = *at,
                None => return Ok(sent),
            },
        }
    }
}

fn arrive(scheduler: &mut dyn Scheduler, at_ms: u64, flow: FlowId, id: u64) -> Result<(), ExperimentError> {
    let operation = Operation::Read;
    let request = Request { id: RequestId(id), flow, operation, offset: 0, length: 4096, cost: Cost::ONE };
    let at = Time::from_nanos(at_ms * 1_000_000);
    let taken = scheduler.on_arrival(at, Arrival::new(at, request));
    taken.map_err(|error| ExperimentError::Other(error.to_string()))
}

fn figure(title: &str, sent: &[Sent]) -> Result<Figure, ExperimentError> {
    let series = |name: &str, flow: FlowId| Series {
        name: name.to_owned(),
        points: sent
            .iter()
            .filter(|it| it.flow == flow)
            .map(|it| (it.at as f64, it.finish_tag as f64))
            .collect(),
    };
    let lines = Lines {
        title: title.to_owned(),
        x: "dispatched at, ms".to_owned(),
        y: "finish tag, ms".to_owned(),
        series: vec![series("f_A", F_A), series("f_B", F_B)],
        marks: Vec::new(),
        log_x: false,
        log_y: false,
    };
    Ok(Figure { title: title.to_owned(), svg: lines.svg()? })
}
