//! Brings a drive into the state that long random overwriting leaves it in, without living through it.
//!
//! ```text
//!  valid pages of a block                      Under uniformly random writes and greedy collection a
//!  b ┤                         ___,--■         block sinks from b valid pages to a, and takes a time in
//!    │              ___,---''''                proportion to 1/i for the page after i: of all blocks, the
//!  a ┤___,---'''''''                           share q has at most a·(b/a)^q valid pages, and their mean
//!    └──────────────────────────── q           (b − a) / ln(b/a) is what has to be stored.
//!    emptied next          just written
//! ```
//!
//! (The fluid limit of Van Houdt, SIGMETRICS 2013; Desnoyers, SYSTOR 2012.) Blocks are filled like that
//! with a random permutation of the pages; then a quarter of the capacity is overwritten through the
//! layer itself, which smooths what the limit leaves out: other policies, wear, DFTL's map.

use evenkeel_core::Time;

use super::ftl::Ftl;
use super::timing::Timeless;
use crate::servers::SplitMix;

/// Where the random permutation and the overwriting begin.
const SEED: u64 = 0x5eed;

/// Fills an empty drive.
pub(super) fn prepare(ftl: &mut Ftl) {
    let (dies, pages) = (ftl.dies(), ftl.logical_pages());
    let mut random = SplitMix(SEED);
    let mut order: Vec<u32> = (0..pages).collect();
    for last in (1..pages).rev() {
        order.swap(last as usize, random.below(last + 1) as usize);
    }
    let mut rest = order.as_slice();
    for die in 0..dies {
        // As many as are left for each of the dies that are left, so that all are dealt out.
        let share = rest.len() / (dies - die) as usize;
        let (here, others) = rest.split_at(share);
        rest = others;
        fill(ftl, die, here);
    }
    ftl.write_whole_map(&mut Timeless);
    for _ in 0..pages / 4 {
        ftl.write(&mut Timeless, random.below(pages), false, Time::ZERO);
    }
}

/// Spreads `pages` over the blocks of a die, the emptiest block first.
fn fill(ftl: &mut Ftl, die: u32, pages: &[u32]) {
    let (blocks, size) = (ftl.blocks_to_fill(die), f64::from(ftl.pages_per_block()));
    let mean = pages.len() as f64 / f64::from(blocks);
    let ratio = ratio_of(mean / size);
    let mut placed = 0;
    for block in 0..blocks {
        // ∫ a·(b/a)^q dq up to the end of this block, less what is placed: rounding is carried on.
        let until = f64::from(block + 1) / f64::from(blocks);
        let total = (size / ratio) * (ratio.powf(until) - 1.0) / ratio.ln() * f64::from(blocks);
        let end = if block + 1 == blocks { pages.len() } else { (total as usize).min(pages.len()) };
        let end = end.clamp(placed, placed + size as usize);
        ftl.fill_block(die, &pages[placed..end]);
        placed = end;
    }
    // Rounding may leave a few.
    for page in &pages[placed..] {
        ftl.write(&mut Timeless, *page, false, Time::ZERO);
    }
}

/// b/a such that the mean of the drawing above is `used` · b: (1 − 1/r) / ln r = used, by bisection.
fn ratio_of(used: f64) -> f64 {
    let (mut low, mut high) = (1.0 + 1e-9, 1e9_f64);
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if (1.0 - 1.0 / middle) / middle.ln() > used { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_what_has_to_be_stored() {
        for used in [0.3, 0.7, 0.9, 0.99] {
            let r = ratio_of(used);
            assert!(((1.0 - 1.0 / r) / r.ln() - used).abs() < 1e-9, "{used}: {r}");
        }
    }
}
