//! The turn of a FAIRIO cycle: steps 1 to 4, as passes over the active classes.
//!
//! ```text
//!  charge   used, entitled, owed ─> charge ─> window         forgiven?  once more over those with an excess
//!  deviate  windows ─> sums of deviations                    not until the window has been full
//!  share    deviation ─> share ─> granted ─> credit          lent?      once more
//!  place    classes whose requests may go now, or may not any more: by the smaller number of them
//! ```
//!
//! Three passes in most cases. None of them divides by what is the same for all classes (proportion.rs); the time per
//! request is the only divisor that is not, and is needed for more than one request only.

use super::disk_time::DiskClock;
use super::fairio_config::FairioConfig;
use super::fairio_history::{Entry, History};
use super::fairio_member::{Member, Members, Standing};
use super::proportion::Proportion;
use crate::units::Span;
use crate::work;

/// Numerator of 1/deviation.
const INVERSE: u128 = 1 << 72;

/// Deviations within this part of the window, as a shift, are rounding.
const TOLERANCE_BITS: u32 = 20;

/// How far Service_window is above what was charged in it, as a shift (deviation 4).
const SLACK_BITS: u32 = 4;

/// Times that a class can renew its pending requests within a cycle (deviation 2).
const TURNS: u64 = 8;

/// The cycle that has ended.
pub(super) struct Ended<'a> {
    pub(super) clock: &'a DiskClock,
    /// Its length in ns.
    pub(super) elapsed: u64,
    /// Length of a full cycle in ns.
    pub(super) cycle: u64,
    /// r full cycles.
    pub(super) window: Span,
}

/// Step 2: what the window's deviations are measured by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yardstick {
    /// Service_window over the sum of weights.
    rightful: Proportion,
    tolerance: u64,
    /// Whether the window has been full: nobody deviates before.
    whole: bool,
}

/// Step 3: how shares follow from deviations.
enum Mode {
    /// By degree of under-service.
    Behind(Proportion),
    /// By weight, among those that do not deviate.
    Even(Proportion),
    /// By 1/deviation: service, and the sum of all.
    Inverse(u64, u128),
}

/// Who wants service in a new cycle, and how much of it is theirs.
#[derive(Default)]
struct Demand {
    /// All shares.
    total: u64,
    /// Those of classes that reach the class threshold.
    able: u64,
    /// Those of classes that have requests, and the weights of these classes.
    wanted: u64,
    weights: u64,
}

/// How many classes with requests waiting have credit in the new cycle, by whether they may go by their tag.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moves {
    /// With credit before and after.
    pub(super) stay_eligible: usize,
    /// With credit now.
    pub(super) regain: usize,
    /// Without credit now.
    pub(super) lose: usize,
    /// Without credit before and after.
    pub(super) stay_parched: usize,
}

impl Members {
    /// Step 1: what each class is charged for the cycle, and what it took per request. Without a `history` the set has
    /// changed, and nobody will look at it. Says whether a class has been idle for a window.
    pub(super) fn charge(
        &mut self,
        ended: &Ended<'_>,
        mut history: Option<&mut History>,
        entry: Entry,
    ) -> bool {
        work::steps(self.len());
        let scale = Proportion::new(ended.elapsed.into(), ended.cycle.into());
        let (mut spare, mut short, mut excess) = (0_u128, 0_u128, 0_u128);
        let (mut retires, mut charged) = (false, 0_u128);
        let seats = self.members.iter_mut().zip(&mut self.standings).zip(&mut self.pasts).enumerate();
        for (seat, ((member, standing), past)) in seats {
            let (used, entitled) = (member.used(ended.clock), scale.of(standing.share));
            let owed = member.owed(entitled, used);
            short += u128::from(owed);
            spare += u128::from(entitled.saturating_sub(used) - owed);
            excess += u128::from(used.saturating_sub(entitled));
            let charge = if used > entitled { used } else { entitled - owed };
            past.charged = match &mut history {
                Some(history) => history.charge(entry, seat, charge, &mut standing.window),
                None => charge,
            };
            charged += u128::from(standing.window);
            past.observe(used, member.completed, entry.full, &mut member.time_per_request);
            retires |= member.is_idle() && ended.clock.now().since(member.idle_since) >= ended.window;
        }
        self.charged = charged;
        let forgiven = spare.saturating_sub(short).min(excess);
        if forgiven > 0 {
            self.forgive(ended, history, entry, &Proportion::new(forgiven, excess));
        }
        retires
    }

    /// Takes back the part of each excess that is forgiven.
    fn forgive(
        &mut self,
        ended: &Ended<'_>,
        mut history: Option<&mut History>,
        entry: Entry,
        part: &Proportion,
    ) {
        work::steps(self.len());
        let scale = Proportion::new(ended.elapsed.into(), ended.cycle.into());
        let seats = self.members.iter().zip(&mut self.standings).zip(&mut self.pasts).enumerate();
        for (seat, ((member, standing), past)) in seats {
            let over = member.used(ended.clock).saturating_sub(scale.of(standing.share));
            if over > 0 {
                let part = part.of(over).min(past.charged);
                past.charged -= part;
                if let Some(history) = &mut history {
                    history.forgive(entry, seat, part, &mut standing.window);
                    self.charged -= u128::from(part);
                }
            }
        }
    }

    /// Step 2. `busy` if the estimate takes the array to be always busy (deviation 4).
    pub(super) fn yardstick(&self, config: &FairioConfig, history: &History, busy: bool) -> Yardstick {
        let (charged, offered) = (self.charged, history.offered());
        let more = charged + (charged >> SLACK_BITS);
        let overrun = charged > offered + (offered >> SLACK_BITS);
        let offered = match busy {
            true => offered.min(more),
            false if overrun => offered,
            false => more,
        };
        let offered = offered.min(u64::MAX.into());
        Yardstick {
            rightful: Proportion::new(offered, self.weights.into()),
            tolerance: ((offered >> TOLERANCE_BITS) as u64).max(config.window_cycles.into()),
            whole: history.is_whole(),
        }
    }

    /// Steps 3 and 4: shares, who lends them to whom, and how many requests that makes. `forward` if the cycle before
    /// was cut short; `tag` is the one by which requests may go.
    pub(super) fn share(
        &mut self,
        config: &FairioConfig,
        clock: &DiskClock,
        yardstick: &Yardstick,
        forward: bool,
        tag: u8,
    ) -> Moves {
        let mode = self.mode(config.service(), yardstick);
        let threshold = u64::from(config.class_threshold);
        let (mut demand, mut moves) = (Demand::default(), Moves::default());
        work::steps(self.len());
        for (member, standing) in self.members.iter_mut().zip(&mut self.standings) {
            let share = mode.share(yardstick, standing);
            standing.share = share;
            demand.add(member, standing, forward, threshold);
            member.begin_to_use(clock);
            member.completed = 0;
            member.kept_waiting = member.waiting > 0;
            member.grant(share);
            moves.count(member, tag);
        }
        if demand.is_lent() { self.lend(&demand, forward, threshold, tag) } else { moves }
    }

    fn mode(&self, service: u64, yardstick: &Yardstick) -> Mode {
        let total = u128::from(service);
        if !yardstick.whole {
            return Mode::Even(Proportion::new(total, self.weights.into()));
        }
        work::steps(self.len());
        let (mut behind, mut even, mut is_even) = (0_u128, 0_u64, false);
        for standing in &self.standings {
            let (is_behind, size) = yardstick.measure(standing);
            behind += u128::from(if is_behind { size } else { 0 });
            even += u64::from(if size == 0 { standing.weight } else { 0 });
            is_even |= size == 0;
        }
        if behind > 0 {
            Mode::Behind(Proportion::new(total, behind))
        } else if is_even {
            Mode::Even(Proportion::new(total, even.into()))
        } else {
            work::steps(self.len());
            let inverse = |standing| INVERSE / u128::from(yardstick.measure(standing).1);
            Mode::Inverse(service, self.standings.iter().map(inverse).sum())
        }
    }

    /// Those below the class threshold lend, and those without requests; one that gets nothing and wants nothing keeps
    /// its own for the case that it comes back.
    #[cold]
    fn lend(&mut self, demand: &Demand, forward: bool, threshold: u64, tag: u8) -> Moves {
        work::steps(self.len());
        let (by_share, whole) = demand.takers();
        let proportion = Proportion::new(demand.total.into(), whole.into());
        let mut moves = Moves::default();
        for (member, standing) in self.members.iter_mut().zip(&self.standings) {
            let wants = member.wants(forward);
            let takes = wants && (demand.able == 0 || member.is_able(standing.share, threshold));
            let part = if by_share { standing.share } else { standing.weight.into() };
            let granted = if takes { proportion.of(part) } else { 0 };
            member.grant(if granted == 0 && !wants { standing.share } else { granted });
            moves.count(member, tag);
        }
        moves
    }
}

impl Yardstick {
    /// Step 2, as a sign and a size: whether the class is behind its share, and how far it is from it.
    #[inline(always)]
    fn measure(&self, standing: &Standing) -> (bool, u64) {
        let (window, rightful) = (standing.window, self.rightful.of(standing.weight.into()));
        let size = window.abs_diff(rightful);
        if size > self.tolerance { (window < rightful, size) } else { (false, 0) }
    }

    /// ServiceDeviation, for reports. Of a class that has come since nothing has been measured.
    pub(super) fn deviation(&self, standing: &Standing) -> i128 {
        match self.measure(standing) {
            _ if !self.whole || standing.weight == 0 => 0,
            (true, size) => -i128::from(size),
            (false, size) => i128::from(size),
        }
    }
}

impl Mode {
    #[inline(always)]
    fn share(&self, yardstick: &Yardstick, standing: &Standing) -> u64 {
        match self {
            Self::Behind(service) => match yardstick.measure(standing) {
                (true, size) => service.of(size),
                _ => 0,
            },
            Self::Even(service) => {
                let even = !yardstick.whole || yardstick.measure(standing).1 == 0;
                if even { service.of(standing.weight.into()) } else { 0 }
            }
            Self::Inverse(service, whole) => {
                let inverse = INVERSE / u128::from(yardstick.measure(standing).1);
                (u128::from(*service) * inverse / whole) as u64
            }
        }
    }
}

impl Demand {
    #[inline(always)]
    fn add(&mut self, member: &Member, standing: &Standing, forward: bool, threshold: u64) {
        let Standing { share, weight, .. } = *standing;
        self.total += share;
        if member.wants(forward) {
            self.wanted += share;
            self.weights += u64::from(weight);
            self.able += if member.is_able(share, threshold) { share } else { 0 };
        }
    }

    /// Whether those who get service get it by share, else by weight; and the sum of that. If nobody reaches the class
    /// threshold it is waived, and if all who have requests have a share of 0 they share by weight.
    const fn takers(&self) -> (bool, u64) {
        match (self.able, self.wanted) {
            (0, 0) => (false, self.weights),
            (0, wanted) => (true, wanted),
            (able, _) => (true, able),
        }
    }

    /// Whether there is a share to lend, and a class to lend it to.
    const fn is_lent(&self) -> bool {
        let (by_share, whole) = self.takers();
        if by_share { whole < self.total } else { whole > 0 && self.total > 0 }
    }
}

impl Moves {
    #[inline(always)]
    fn count(&mut self, member: &Member, tag: u8) {
        let waits = usize::from(member.waiting > 0);
        match (member.tag == tag, member.credit > 0) {
            (true, true) => self.stay_eligible += waits,
            (true, false) => self.lose += waits,
            (false, true) => self.regain += waits,
            (false, false) => self.stay_parched += waits,
        }
    }
}

impl Member {
    pub(super) const fn is_idle(&self) -> bool {
        self.waiting == 0 && self.outstanding == 0
    }

    const fn wants(&self, forward: bool) -> bool {
        self.waiting > 0 || (self.outstanding > 0 && !forward)
    }

    /// Whether a share is worth `threshold` requests, rounded up.
    const fn is_able(&self, share: u64, threshold: u64) -> bool {
        share > (threshold - 1).saturating_mul(self.time_per_request)
    }

    /// Step 4: its service in this cycle, and what requests it may send.
    #[inline(always)]
    fn grant(&mut self, granted: u64) {
        self.granted = granted;
        self.credit = self.requests_of(granted);
    }

    /// What the class fell short of `entitled` because it was held back: all of it if that was so for the whole cycle,
    /// else no more than its pending requests stand for.
    #[inline(always)]
    fn owed(&self, entitled: u64, used: u64) -> u64 {
        let behind = entitled.saturating_sub(used);
        if self.kept_waiting {
            return behind;
        }
        let at_store = if self.credit == 0 { self.outstanding } else { 0 };
        let pending = u64::from(self.waiting) + u64::from(at_store);
        behind.min(pending.saturating_mul(self.time_per_request).saturating_mul(TURNS))
    }
}
