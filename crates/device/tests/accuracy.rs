//! The disk model against DiskSim and against real drives. `docs/results/device-accuracy.md` has the
//! figures; here are the bars.

mod oracle;

use evenkeel_device::disk::parameters::Policy;
use evenkeel_device::disk::{Parameters, disksim};
use oracle::{Measured, Run, demerit, mean, measured, rms, runs, thinking};

/// RMS distance between the response-time distributions of DiskSim and of the drive, in microseconds, over
/// all 10 000 requests to each.
const DISKSIM_DEMERIT_US: [(&str, u32); 5] =
    [("cheetah9lp", 107), ("ibm18es", 136), ("atlas-iii", 378), ("barracuda", 348), ("cheetah4lp", 318)];

#[test]
fn without_a_cache_every_response_is_that_of_disksim() {
    let runs: Vec<Run> = runs().into_iter().filter(Run::is_request_by_request).collect();
    assert_eq!(runs.len(), 15);
    for run in runs {
        let ours = run.outcome().responses;
        let theirs = &run.first_ns;
        let off = rms(&ours[..theirs.len()], theirs) / run.mean_ns as f64;
        assert!(off <= 0.02, "{}: off by {:.2} % of the mean", run.name, off * 100.0);
    }
}

/// By how much DiskSim's platters fall behind the clock in 20 000 accesses of 8 sectors: a microsecond of
/// that decides whether a sector is met or missed, so the last requests show whether this is all of it.
#[test]
fn disksims_angle_explains_its_drift() {
    for run in runs().iter().filter(|run| run.arrives()) {
        let theirs = &run.last_ns;
        let median_lag = |parameters: &Parameters| {
            let ours = run.outcome_on(parameters).responses;
            let ours = &ours[ours.len() - theirs.len()..];
            let mut lags: Vec<i64> =
                ours.iter().zip(theirs).map(|(ours, theirs)| *theirs as i64 - *ours as i64).collect();
            lags.sort_unstable();
            lags[lags.len() / 2]
        };
        let revolution = 60_000_000_000 / i64::from(run.parameters().rpm);
        let drift = median_lag(&run.parameters());
        // 19 900 accesses of 9.5 cuts of 2^-24 turns.
        let expected = revolution * 19_900 * 19 / (1 << 25);
        assert!(drift.abs_diff(expected) < expected as u64 / 50, "{}: {drift}, not {expected}", run.name);
        let left = median_lag(&run.parameters_with_disksims_angle());
        assert!(left.abs() < 1_000, "{}: {left} ns left", run.name);
    }
}

#[test]
fn distributions_are_those_of_disksim() {
    for run in runs().iter().filter(|run| !run.is_queued()) {
        let distance = run.distance(&run.outcome().responses);
        assert!(distance <= 0.03, "{}: {:.2} % of the mean apart", run.name, distance * 100.0);
    }
}

#[test]
fn queued_runs_have_the_throughput_and_the_mean_of_disksim() {
    let runs: Vec<Run> = runs().into_iter().filter(Run::is_queued).collect();
    assert_eq!(runs.len(), 19);
    for run in runs {
        let outcome = run.outcome();
        let responses = mean(&outcome.responses) / run.mean_ns as f64 - 1.0;
        assert!(responses.abs() <= 0.03, "{}: mean off by {:.2} %", run.name, responses * 100.0);
        let time = outcome.end as f64 / run.end_ns as f64 - 1.0;
        assert!(time.abs() <= 0.03, "{}: throughput off by {:.2} %", run.name, time * 100.0);
    }
}

#[test]
fn better_policies_finish_sooner() {
    let run = runs()
        .into_iter()
        .find(|run| run.name == "cheetah9LP_rr4k_qd16_sstflbn_nocache")
        .expect("it is there");
    let end = |policy| {
        let mut drive = run.parameters();
        drive.queue.policy = policy;
        run.outcome_on(&drive).end
    };
    let (fcfs, sweep) = (end(Policy::Fcfs), end(Policy::CLook));
    let (seek, positioning) = (end(Policy::Sstf), end(Policy::Sptf));
    assert!(positioning < seek && seek < sweep && sweep < fcfs, "{positioning} {seek} {sweep} {fcfs}");
    assert!(positioning < fcfs / 10 * 6, "{positioning} of {fcfs}");
}

#[test]
fn real_drives_are_met_better_than_by_disksim() {
    for (drive, _) in DISKSIM_DEMERIT_US {
        let (ours, theirs) = demerits_ms(&oracle::drive(drive), &measured(drive));
        assert!(ours <= theirs, "{drive}: {ours:.3} ms from the drive, DiskSim {theirs:.3} ms");
    }
}

#[test]
fn the_mechanism_alone_is_closer_to_real_drives_than_disksim() {
    for (drive, _) in DISKSIM_DEMERIT_US {
        let (ours, theirs) = demerits_ms(&oracle::drive_as_disksim(drive), &measured(drive));
        assert!(ours <= theirs, "{drive}: {ours:.3} ms from the drive, DiskSim {theirs:.3} ms");
    }
}

#[test]
fn drives_that_nothing_was_taken_from() {
    for (name, _, bar_us) in oracle::UNSEEN {
        let (drive, measured) = oracle::unseen(name);
        let real: Vec<u64> = measured.iter().map(|request| request.response).collect();
        let distance = demerit(&thinking(&drive, &measured), &real) / 1e3;
        assert!(distance <= f64::from(bar_us), "{name}: {distance:.0} us from the drive, not {bar_us}");
    }
}

#[test]
fn all_measurements_and_all_outputs() {
    let Some(root) = oracle::whole_data() else {
        eprintln!("skipped: EVENKEEL_ORACLES does not name the whole data; the other tests use the excerpt");
        return;
    };
    for ((drive, bar), (same, name)) in DISKSIM_DEMERIT_US.into_iter().zip(oracle::MEASURED) {
        assert_eq!(drive, same);
        let bar = f64::from(bar) / 1e3;
        let (ours, theirs) = demerits_ms(&oracle::drive(drive), &oracle::all_measured(&root, name));
        assert!((theirs - bar).abs() < 0.001, "{drive}: DiskSim's figure is {theirs:.4} ms");
        assert!(ours < bar, "{drive}: {ours:.3} ms from the drive, DiskSim {bar:.3} ms");
    }
    for run in runs().iter().filter(|run| !run.is_queued()) {
        let (ours, theirs) = (run.outcome().responses, run.all_responses(&root));
        let distance = demerit(&ours, &theirs) / run.mean_ns as f64;
        assert!(distance <= 0.03, "{}: {:.2} % of the mean apart", run.name, distance * 100.0);
    }
    for run in runs().iter().filter(|run| run.is_request_by_request()) {
        let ours = run.outcome_on(&run.parameters_with_disksims_angle()).responses;
        let off = rms(&ours, &run.all_responses(&root)) / run.mean_ns as f64;
        assert!(off <= 0.02, "{}: off by {:.2} % of the mean", run.name, off * 100.0);
    }
}

#[test]
fn disksims_files_are_the_drives_that_devices_has() {
    let Some(root) = oracle::whole_data() else {
        eprintln!("skipped: EVENKEEL_ORACLES does not name the whole data");
        return;
    };
    let folder = root.join("drives");
    for (name, file) in oracle::MEASURED {
        let read = |file: &str| Ok(std::fs::read_to_string(folder.join(file)).expect("it is there"));
        let text = read(&format!("{file}.diskspecs")).expect("it is there");
        let imported = disksim::import(&text, read).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = oracle::drive_as_disksim(name);
        let named =
            |drive: Parameters| Parameters { description: String::new(), sources: Vec::new(), ..drive };
        assert_eq!(named(imported.parameters), named(expected), "{name}");
        assert!(imported.left_out.is_empty(), "{name}: {:?}", imported.left_out);
    }
}

/// How far our distribution and DiskSim's are from the drive's.
fn demerits_ms(drive: &Parameters, measured: &[Measured]) -> (f64, f64) {
    let ours = thinking(drive, measured);
    let real: Vec<u64> = measured.iter().map(|request| request.response).collect();
    let theirs: Vec<u64> = measured.iter().map(|request| request.disksim).collect();
    (demerit(&ours, &real) / 1e6, demerit(&theirs, &real) / 1e6)
}
