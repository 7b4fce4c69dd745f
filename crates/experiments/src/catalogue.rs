//! All experiments, in the order of the papers. One module for each paper.

use crate::Experiment;

/// Every experiment.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    let papers: [&'static [Experiment]; 5] = [
        crate::pclock::EXPERIMENTS,
        crate::nested::EXPERIMENTS,
        crate::fairio::EXPERIMENTS,
        crate::jain::EXPERIMENTS,
        crate::matrix::EXPERIMENTS,
    ];
    papers.into_iter().flatten()
}

/// The experiment of that name.
#[must_use]
pub fn find(id: &str) -> Option<&'static Experiment> {
    all().find(|experiment| experiment.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_for_files() {
        let mut seen = std::collections::BTreeSet::new();
        for experiment in all() {
            assert!(seen.insert(experiment.id), "{} is there twice", experiment.id);
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            assert!(experiment.id.chars().all(fits), "{}", experiment.id);
        }
    }
}
