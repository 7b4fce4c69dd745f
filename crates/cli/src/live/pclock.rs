//! pClock's measurements in the Linux kernel, section 5.2, through the gateway.

use evenkeel_core::{Operation, Span, Time};
use evenkeel_experiments::study::number;
use evenkeel_experiments::{Check, Context, ExperimentError, Figure, Study};
use evenkeel_report::figure::Bars;
use evenkeel_trace::TraceRequest;

use super::files::{self, DataSet};
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

/// A case of table 3 in which both flows have the same personality, with promises 1:2.
struct Alike {
    case: &'static str,
    file: &'static str,
    text: &'static str,
    /// The personality on a volume, and on files.
    jobs: [&'static str; 2],
    data: DataSet,
    flows: [&'static str; 2],
    /// Operations per second and mean ms of each flow.
    paper: [[&'static str; 2]; 2],
}

/// Cases I and II.
const ALIKE: [Alike; 2] = [
    Alike {
        case: "I",
        file: "pclock-table3-webserver.toml",
        text: text!("pclock-table3-webserver.toml"),
        jobs: [text!("fio/webserver.fio"), text!("fio/webserver-files.fio")],
        data: DataSet { threads: 16, files: 12, bytes: 256 << 10 },
        flows: ["webserver_1", "webserver_2"],
        paper: [["16.6", "2705.5"], ["33.2", "1279.2"]],
    },
    Alike {
        case: "II",
        file: "pclock-table3-varmail.toml",
        text: text!("pclock-table3-varmail.toml"),
        jobs: [text!("fio/varmail.fio"), text!("fio/varmail-files.fio")],
        data: DataSet { threads: 16, files: 60, bytes: 16 << 10 },
        flows: ["varmail_1", "varmail_2"],
        paper: [["53.4", "966.3"], ["149.2", "331.7"]],
    },
];
const PAPER_III: [[&str; 2]; 2] = [["60.9", "367.2"], ["23.9", "942.9"]];
/// The database's files.
const OLTP: DataSet = DataSet { threads: 8, files: 1, bytes: 4 << 20 };

pub(super) fn table_3(context: &Context) -> Result<Study, ExperimentError> {
    let mut study = Study::default();
    let mut table = Vec::new();
    for it in &ALIKE {
        let clients = it.flows.map(|flow| (flow, Client::Fio(it.jobs[0])));
        let pairs = run(context, it.file, it.text, "pclock", &clients)?;
        one_to_two(&mut study, it.case, &pairs, &disturbance(&pairs));
        agree(&mut study, it.case, &pairs);
        table.extend(rows(it.case, &pairs, &it.paper));
    }
    let clients = [
        ("oltp", Client::Fio(text!("fio/oltp.fio"))),
        ("webserver", Client::Fio(text!("fio/webserver.fio"))),
    ];
    let text = text!("pclock-table3-oltp.toml");
    let pairs = run(context, "pclock-table3-oltp.toml", text, "pclock", &clients)?;
    database_first(&mut study, "III", &pairs);
    agree(&mut study, "III", &pairs);
    table.extend(rows("III", &pairs, &PAPER_III));
    study.figures.push(bars("Table 3, case III: mean latency", &pairs)?);
    study.table("On volumes without a file system: requests", &HEADS, table);
    match files::missing() {
        None => on_files(context, &mut study)?,
        Some(why) => {
            study.note(format!("The cases on file systems were left out of this run: {why}."));
        }
    }
    study.note(
        "Filebench's operations on files are several requests each, and most of Table 3's latencies are of such operations \
         (opening, appending, deleting): the ratios compare, the figures do not. fio job files send what the personalities send \
         to the block layer, and read and write whole files on file systems.",
    );
    study.note("Promises of 90 IOPS on a disk of 85 are the paper's own choice; the gateway warns of it.");
    notes(&mut study);
    Ok(study)
}

/// Throughput as promised, latency the other way round.
fn one_to_two(study: &mut Study, case: &str, pairs: &[Pair], why: &str) {
    let (one, two) = (&pairs[0].live, &pairs[1].live);
    let law = format!("{case}: throughput in the ratio of the promises, 1:2");
    study.check(Check::within_percent(law, two.iops / one.iops, 2.0, 10.0, "").because(why));
    let law = format!("{case}: latency in the inverse ratio");
    study.check(Check::within_percent(law, one.mean_ms / two.mean_ms, 2.0, 10.0, "").because(why));
}

/// What is shared out are requests; how many of them an operation is, differs.
fn per_operation(pairs: &[Pair]) -> String {
    let block = [0, 1].map(|flow: usize| pairs[flow].block_iops.unwrap_or(f64::NAN));
    let [one, two] = [0, 1].map(|flow: usize| number(block[flow] / pairs[flow].live.iops));
    format!(
        "An operation of flow 1 is {one} requests, one of flow 2 {two}: where several threads sync files whose inodes share a block, the \
         file system writes it once for all that wait, and more wait where writes take longer. At the block layer flow 2 has {} times \
         what flow 1 has. The paper says of its varmail: \"the bandwidth reservation of 1:1.6 is visible even at the varmail \
         application level\"",
        number(block[1] / block[0])
    )
}

/// The database is quick beside the web server, and gets what it asks for.
fn database_first(study: &mut Study, case: &str, pairs: &[Pair]) {
    let law = format!("{case}: the database's latency is far below the web server's (paper: 367 and 943 ms)");
    let ratio = pairs[0].live.mean_ms / pairs[1].live.mean_ms;
    study.check(Check::at_most(law, ratio, 367.2 / 942.9, "times"));
    let law = format!("{case}: the database gets all it asks for");
    study.check(Check::near(law, pairs[0].live.iops, 40.0, 1.0, "IOPS"));
}

/// The same on an ext2 file system on each volume, as in the paper.
fn on_files(context: &Context, study: &mut Study) -> Result<(), ExperimentError> {
    let mut table = Vec::new();
    for it in &ALIKE {
        let case = format!("{} on files", it.case);
        let clients = it.flows.map(|flow| (flow, Client::Files(it.jobs[1], it.data)));
        let pairs = run(context, it.file, it.text, "pclock", &clients)?;
        one_to_two(study, &case, &pairs, &per_operation(&pairs));
        at_block_layer(study, &case, &pairs);
        table.extend(file_rows(&case, &pairs, &it.paper));
    }
    let clients = [
        ("oltp", Client::Files(text!("fio/oltp-files.fio"), OLTP)),
        ("webserver", Client::Files(ALIKE[0].jobs[1], ALIKE[0].data)),
    ];
    let text = text!("pclock-table3-oltp.toml");
    let pairs = run(context, "pclock-table3-oltp.toml", text, "pclock", &clients)?;
    database_first(study, "III on files", &pairs);
    at_block_layer(study, "III on files", &pairs);
    table.extend(file_rows("III on files", &pairs, &PAPER_III));
    let heads = [
        "run",
        "flow",
        "paper, operations/s",
        "operations/s",
        "paper, mean ms",
        "mean ms",
        "at the block layer, IOPS",
        "twin, IOPS",
    ];
    study.table("On ext2 over nbdfuse and a loop device: operations on files", &heads, table);
    study.note(
        "On files: ext2 on a loop device on nbdfuse, past the page cache (the paper's files are more than fit its memory; here \
         192 files of 256 KiB, 960 of 16 KiB, or 8 of 4 MiB). The twins have the same threads, each with one request under way, \
         and know of no metadata, so they are compared at the block layer and in throughput only.",
    );
    Ok(())
}

/// The gateway and the simulator serve as many requests, whatever a file system makes of operations.
fn at_block_layer(study: &mut Study, case: &str, pairs: &[Pair]) {
    for pair in pairs {
        let law = format!("{case}, {}: requests within 10 % of its twin, throughput", pair.name);
        let iops = pair.block_iops.unwrap_or(f64::NAN);
        study.check(Check::within_percent(law, iops, pair.twin.served_iops, 10.0, "IOPS"));
    }
}

fn file_rows(case: &str, pairs: &[Pair], paper: &[[&str; 2]]) -> Vec<Vec<String>> {
    let row = |(pair, paper): (&Pair, &[&str; 2])| {
        vec![
            case.to_owned(),
            pair.name.clone(),
            paper[0].to_owned(),
            number(pair.live.iops),
            paper[1].to_owned(),
            number(pair.live.mean_ms),
            number(pair.block_iops.unwrap_or(f64::NAN)),
            number(pair.twin.served_iops),
        ]
    };
    pairs.iter().zip(paper).map(row).collect()
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
