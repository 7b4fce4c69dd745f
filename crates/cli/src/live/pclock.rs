//! pClock's measurements in the Linux kernel, section 5.2, through the gateway.

use evenkeel_core::{Operation, Span, Time};
use evenkeel_experiments::{Check, Context, ExperimentError, Figure, Study};
use evenkeel_report::figure::Bars;
use evenkeel_trace::TraceRequest;

use super::rig::{Client, HEADS, Pair, agree, disturbance, rows, run};

macro_rules! text {
    ($file:literal) => {
        include_str!(concat!("../../../../experiments/live/", $file))
    };
}

const BACKLOGGED: &str = text!("fio/backlogged.fio");

/// Flow 1 in all parts of the figure: 40 s of 40 IOPS.
const PACED: [(f64, f64); 1] = [(40.0, 40.0)];
/// By how much flow 2 of parts (c, d) comes after flow 1.
const OFF_STEP: Span = Span::from_millis(6);

pub(super) fn figure_13(context: &Context) -> Result<Study, ExperimentError> {
    let mut study = Study::default();
    let mut table = Vec::new();

    let text = text!("pclock-fig13a.toml");
    let clients = [("flow_1", Client::Play(paced(&PACED))), ("flow_2", Client::Fio(BACKLOGGED))];
    let pairs = run(context, "pclock-fig13a.toml", text, "pclock", &clients)?;
    let (one, two) = (&pairs[0], &pairs[1]);
    keeps_40(&mut study, "a, b", one);
    study.check(Check::at_least(
        "a, b: flow 2 takes what is to spare (paper: 45 IOPS)",
        two.live.iops,
        0.95 * 45.0,
        "IOPS",
    ));
    study.check(Check::at_least(
        "a, b: the backlogged flow pays with its own latency: flow 2 over flow 1",
        two.live.mean_ms / one.live.mean_ms,
        1.0,
        "times",
    ));
    agree(&mut study, "a, b", &pairs);
    table.extend(rows("a, b", &pairs, &[["40", "30"], ["45", "180"]]));
    study.figures.push(bars("Figure 13 (a, b): mean latency", &pairs)?);

    let text = text!("pclock-fig13c.toml");
    let steps = [(10.0, 10.0), (10.0, 20.0), (10.0, 30.0), (10.0, 44.0)];
    // Flow 2 is off flow 1's instants, as in the scenario: which of two requests of the same instant comes first is the
    // order of the flows in a simulation and chance on a machine.
    let mut later = paced(&steps);
    later.iter_mut().for_each(|request| request.at += OFF_STEP);
    let clients = [("flow_1", Client::Play(paced(&PACED))), ("flow_2", Client::Play(later))];
    let pairs = run(context, "pclock-fig13c.toml", text, "pclock", &clients)?;
    keeps_40(&mut study, "c, d", &pairs[0]);
    agree(&mut study, "c, d", &pairs);
    table.extend(rows("c, d", &pairs, &[["40", "30"], ["rising to 45", "up to 180"]]));

    let text = text!("pclock-two-backlogged.toml");
    let clients = [("flow_1", Client::Fio(BACKLOGGED)), ("flow_2", Client::Fio(BACKLOGGED))];
    let pairs = run(context, "pclock-two-backlogged.toml", text, "pclock", &clients)?;
    for (pair, promised) in pairs.iter().zip([20.0, 60.0]) {
        let law = format!("two backlogged: {} gets what it is promised", pair.name);
        study.check(
            Check::at_least(law, pair.live.iops, 0.98 * promised, "IOPS").because(&disturbance(&pairs)),
        );
    }
    agree(&mut study, "two backlogged", &pairs);
    table.extend(rows("two backlogged", &pairs, &[["24", "320"], ["63", "130"]]));
    study.figures.push(bars("Two backlogged flows, 20 and 60 IOPS: mean latency", &pairs)?);

    study.table("Throughput and latency", &HEADS, table);
    notes(&mut study);
    Ok(study)
}

fn keeps_40(study: &mut Study, part: &str, flow: &Pair) {
    let reason = disturbance(std::slice::from_ref(flow));
    study.check(Check::near(format!("{part}: flow 1 keeps 40 IOPS"), flow.live.iops, 40.0, 0.8, "IOPS"));
    study.check(
        Check::at_most(
            format!("{part}: flow 1's mean latency is low (paper: 30 ms; promised: 100 ms)"),
            flow.live.mean_ms,
            40.0,
            "ms",
        )
        .because(&reason),
    );
    let latest = flow.live.latencies_us.last().map_or(f64::NAN, |us| *us as f64 / 1e3);
    study.check(
        Check::at_most(
            format!("{part}: flow 1 is within its 100 ms, with one service time on top"),
            latest,
            100.0 + 1000.0 / 85.0,
            "ms",
        )
        .because(&reason),
    );
}

pub(super) fn table_3(context: &Context) -> Result<Study, ExperimentError> {
    let mut study = Study::default();
    let mut table = Vec::new();
    let cases: [(&str, &str, &str, &str, [&str; 2]); 2] = [
        (
            "I",
            "pclock-table3-webserver.toml",
            text!("pclock-table3-webserver.toml"),
            text!("fio/webserver.fio"),
            ["webserver_1", "webserver_2"],
        ),
        (
            "II",
            "pclock-table3-varmail.toml",
            text!("pclock-table3-varmail.toml"),
            text!("fio/varmail.fio"),
            ["varmail_1", "varmail_2"],
        ),
    ];
    let paper = [[["16.6", "2705.5"], ["33.2", "1279.2"]], [["53.4", "966.3"], ["149.2", "331.7"]]];
    for ((case, file, text, job, flows), paper) in cases.into_iter().zip(&paper) {
        let clients = flows.map(|flow| (flow, Client::Fio(job)));
        let pairs = run(context, file, text, "pclock", &clients)?;
        study.check(Check::within_percent(
            format!("{case}: throughput in the ratio of the promises, 1:2"),
            pairs[1].live.iops / pairs[0].live.iops,
            2.0,
            10.0,
            "",
        ));
        study.check(Check::within_percent(
            format!("{case}: latency in the inverse ratio"),
            pairs[0].live.mean_ms / pairs[1].live.mean_ms,
            2.0,
            10.0,
            "",
        ));
        agree(&mut study, case, &pairs);
        table.extend(rows(case, &pairs, paper));
    }
    let clients = [
        ("oltp", Client::Fio(text!("fio/oltp.fio"))),
        ("webserver", Client::Fio(text!("fio/webserver.fio"))),
    ];
    let text = text!("pclock-table3-oltp.toml");
    let pairs = run(context, "pclock-table3-oltp.toml", text, "pclock", &clients)?;
    study.check(Check::at_most(
        "III: the database's latency is far below the web server's (paper: 367 and 943 ms)",
        pairs[0].live.mean_ms / pairs[1].live.mean_ms,
        367.2 / 942.9,
        "times",
    ));
    study.check(Check::near("III: the database gets all it asks for", pairs[0].live.iops, 40.0, 1.0, "IOPS"));
    agree(&mut study, "III", &pairs);
    table.extend(rows("III", &pairs, &[["60.9", "367.2"], ["23.9", "942.9"]]));
    study.figures.push(bars("Table 3, case III: mean latency", &pairs)?);
    study.table(
        "Throughput and latency; the paper counts operations on files, we count requests",
        &HEADS,
        table,
    );
    study.note(
        "Filebench's operations on files are several requests each, and most of Table 3's latencies are of operations: the \
         ratios compare, the figures do not. Here fio job files send what the personalities send to the block layer, to \
         volumes without a file system.",
    );
    study.note("Promises of 90 IOPS on a disk of 85 are the paper's own choice; the gateway warns of it.");
    notes(&mut study);
    Ok(study)
}

fn notes(study: &mut Study) {
    study.note(
        "Live figures are of one run in real time and differ from run to run; those of the twins do not. The disk is \
         emulated: 85 requests a second, one at a time. Twins send the same pattern; fio's closed loops differ from it by \
         the time that fio takes to send the next request.",
    );
}

/// So many requests per second for so many seconds, one step after the other.
fn paced(steps: &[(f64, f64)]) -> Vec<TraceRequest> {
    let mut requests = Vec::new();
    let mut from = 0.0;
    for (seconds, iops) in steps {
        for index in 0..(seconds * iops) as u64 {
            let at = Time::from_nanos(((from + index as f64 / iops) * 1e9) as u64);
            let offset =
                (requests.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) % (32 << 20) / 4096 * 4096;
            requests.push(TraceRequest { at, volume: 0, operation: Operation::Read, offset, length: 4096 });
        }
        from += seconds;
    }
    requests
}

fn bars(title: &str, pairs: &[Pair]) -> Result<Figure, ExperimentError> {
    let of = |value: &dyn Fn(&Pair) -> f64| pairs.iter().map(value).collect();
    let bars = Bars {
        title: title.to_owned(),
        y: "latency, ms".to_owned(),
        groups: pairs.iter().map(|pair| pair.name.clone()).collect(),
        series: vec![
            ("live".to_owned(), of(&|pair| pair.live.mean_ms)),
            ("twin".to_owned(), of(&|pair| pair.twin.latency.latency_mean_us / 1e3)),
        ],
    };
    Ok(Figure { title: title.to_owned(), svg: bars.svg()? })
}
