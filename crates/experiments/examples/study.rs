//! Runs experiments whose names begin with the first argument, into the folder of the second.
//!   cargo run --release -p evenkeel-experiments --example study -- capacity-drop /tmp/results [TRACES]
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let context = evenkeel_experiments::Context { traces: words.get(3).map(Into::into), commit: None };
    for experiment in evenkeel_experiments::all().filter(|it| it.id.starts_with(&words[1])) {
        let started = std::time::Instant::now();
        match (experiment.run)(&context) {
            Ok(study) => {
                evenkeel_experiments::write::study(words[2].as_ref(), experiment, &study, &context)
                    .expect("writable");
                for check in study.checks.iter().filter(|check| !check.holds) {
                    println!("{}: FAILS {}: {}", experiment.id, check.law, check.found);
                }
                println!("{}: {} checks, {:?}", experiment.id, study.checks.len(), started.elapsed());
            }
            Err(error) => println!("{}: {error}", experiment.id),
        }
    }
}
