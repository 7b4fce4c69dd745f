//! What the device of a store gives while it is kept busy, and whether the promises still fit.
//!
//! ```text
//!  completions while full ──> CapacityEstimate ──> low … high, each time a window is over
//!                                                     │
//!      promises need more than high ──> Short ── alarm, until low is enough again (hysteresis)
//!      the stated capacity is above high ──> SlowerThanStated
//! ```

use evenkeel_core::{CapacityEstimate, CapacityInterval, Cost, Rate, Span, Time};

/// Busy time of one window.
const WINDOW: Span = Span::from_millis(250);

/// How a store's device compares with what is promised on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CapacityVerdict {
    /// The device has not been busy for long enough.
    Unknown,
    /// It gives what the promises need.
    Fits,
    /// It gives what the promises need, but less than is stated as its capacity.
    SlowerThanStated,
    /// It gives less than the promises need: some of them will be missed.
    Short,
}

/// The capacity of a store: stated, needed and seen. Rates in requests of cost 1 per second.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct CapacityAccount {
    /// As configured, if it is.
    pub stated_iops: Option<f64>,
    /// What the promises need.
    pub needed_iops: f64,
    /// What the device gave while it was busy, lately; `None` if it has not been for long enough.
    pub seen_iops: Option<f64>,
    /// The lower end of its 95 % confidence interval.
    pub seen_low_iops: Option<f64>,
    /// The upper end.
    pub seen_high_iops: Option<f64>,
    /// How they compare.
    pub verdict: CapacityVerdict,
    /// How often the promises ceased to fit.
    pub alarms: u64,
}

pub(super) struct CapacityWatch {
    estimate: CapacityEstimate,
    stated: Option<Rate>,
    needed: Rate,
    verdict: CapacityVerdict,
    alarms: u64,
}

impl CapacityWatch {
    pub(super) const fn new(stated: Option<Rate>, needed: Rate) -> Self {
        let estimate = CapacityEstimate::new(WINDOW);
        Self { estimate, stated, needed, verdict: CapacityVerdict::Unknown, alarms: 0 }
    }

    pub(super) const fn stated(&self) -> Option<Rate> {
        self.stated
    }

    pub(super) const fn needed(&self) -> Rate {
        self.needed
    }

    pub(super) const fn verdict(&self) -> CapacityVerdict {
        self.verdict
    }

    /// The promises have changed.
    pub(super) const fn set_needed(&mut self, needed: Rate) {
        self.needed = needed;
    }

    /// A request was completed by the device of `store`.
    pub(super) fn on_completion(&mut self, store: &str, at: Time, cost: Cost, was_full: bool) {
        if self.estimate.on_completion(at, cost, was_full)
            && let Some(seen) = self.estimate.interval()
        {
            self.judge(store, seen);
        }
    }

    pub(super) const fn on_dispatched(&mut self, is_full: bool) {
        self.estimate.on_dispatched(is_full);
    }

    fn judge(&mut self, store: &str, seen: CapacityInterval) {
        let is_short = match self.verdict {
            CapacityVerdict::Short => seen.low < self.needed,
            _ => seen.high < self.needed,
        };
        let is_slower = self.stated.is_some_and(|stated| seen.high < stated);
        let verdict = match (is_short, is_slower) {
            (true, _) => CapacityVerdict::Short,
            (false, true) => CapacityVerdict::SlowerThanStated,
            (false, false) => CapacityVerdict::Fits,
        };
        let before = std::mem::replace(&mut self.verdict, verdict);
        if verdict == before {
            return;
        }
        let (low, high, needed) = (seen.low, seen.high, self.needed);
        match verdict {
            CapacityVerdict::Short => {
                self.alarms += 1;
                tracing::error!(%store, %needed, %low, %high,
                    "the promises no longer fit what the device gives: some will be missed; lower them, or move volumes away");
            }
            CapacityVerdict::SlowerThanStated => {
                let stated = self.stated.unwrap_or_default();
                tracing::warn!(%store, %stated, %low, %high,
                    "the device is slower than its stated capacity; the promises still fit");
            }
            _ if before != CapacityVerdict::Unknown => {
                tracing::info!(%store, %needed, %low, %high, "the promises fit what the device gives again");
            }
            _ => {}
        }
    }

    pub(super) fn account(&self) -> CapacityAccount {
        let seen = self.estimate.interval();
        CapacityAccount {
            stated_iops: self.stated.map(Rate::as_f64),
            needed_iops: self.needed.as_f64(),
            seen_iops: seen.map(|seen| seen.mean.as_f64()),
            seen_low_iops: seen.map(|seen| seen.low.as_f64()),
            seen_high_iops: seen.map(|seen| seen.high.as_f64()),
            verdict: self.verdict,
            alarms: self.alarms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(low: u64, high: u64) -> CapacityInterval {
        let (low, high) = (Rate::per_second(low), Rate::per_second(high));
        CapacityInterval { mean: low, low, high, windows: 5 }
    }

    #[test]
    fn the_alarm_comes_once_and_goes_only_when_it_surely_fits() {
        let mut watch = CapacityWatch::new(Some(Rate::per_second(150)), Rate::per_second(100));
        let mut after = |low, high| {
            watch.judge("s", seen(low, high));
            (watch.verdict, watch.alarms)
        };
        assert_eq!(after(140, 160), (CapacityVerdict::Fits, 0));
        assert_eq!(after(95, 105), (CapacityVerdict::SlowerThanStated, 0));
        assert_eq!(after(90, 99), (CapacityVerdict::Short, 1));
        assert_eq!(after(95, 105), (CapacityVerdict::Short, 1));
        assert_eq!(after(100, 105), (CapacityVerdict::SlowerThanStated, 1));
        assert_eq!(after(90, 99), (CapacityVerdict::Short, 2));
    }
}
