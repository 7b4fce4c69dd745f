//! The quick experiments hold, and two runs of one give the same bytes.

use std::num::NonZeroUsize;

use evenkeel_experiments::{Context, Experiment, all, run_all, write};

#[test]
fn quick_experiments_hold_and_repeat() {
    let quick: Vec<&'static Experiment> = all().filter(|experiment| experiment.quick).collect();
    assert!(quick.len() >= 8, "{}", quick.len());
    let context = Context::default();
    let run = |threads| run_all(&quick, &context, NonZeroUsize::new(threads).unwrap(), &|_| {});
    for ((experiment, first), (_, second)) in run(1).into_iter().zip(run(2)) {
        let (first, second) = (first.unwrap(), second.unwrap());
        for check in &first.checks {
            assert!(check.holds, "{}: {}: {}", experiment.id, check.law, check.found);
        }
        let json = |study| write::json_text(experiment, study, &context);
        assert_eq!(json(&first), json(&second), "{}", experiment.id);
        assert_eq!(first.figures, second.figures, "{}", experiment.id);
    }
}
