//! What it brings to keep a cluster on flash: the flash model and the gain equation.
//!
//! Source: Jain 2008, section 4.1 (Table 4) and 4.2. The prose above Table 4 defines α with respect to
//! random accesses, the table with respect to sequential ones; the table is used. A cluster with `A_rw`
//! reads per write gains, for each write that goes to flash,
//!
//! ```text
//!  gain = A_rw · (α_r·β_r − 1)·t_r  −  (t_w + m·x − α_w·β_w·t_w)
//!         └ reads from here on ┘      └ this write, x writes later ┘
//! ```
//! In this file the products are plain times: `α_r·β_r·t_r` is the disk's random read, and so on, so
//! that an operator enters what they can measure.

use std::cmp::Ordering;

use evenkeel_core::Span;

/// Access times of both devices, for a request of one flash page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessTimes {
    /// Random read from disk, `α_r·β_r·t_r`.
    pub disk_random_read: Span,
    /// Random write to disk, `α_w·β_w·t_w`.
    pub disk_random_write: Span,
    /// Read from flash, `t_r`.
    pub flash_read: Span,
    /// Write to fresh flash, `t_w`.
    pub flash_write: Span,
    /// What each write adds to later writes, `m`.
    pub flash_write_slope: Span,
    /// Where that ends: a write to worn-in flash.
    pub flash_write_max: Span,
}

/// What a cluster gains on flash per write, as an exact fraction in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Gain {
    /// Nanoseconds over the whole history.
    total: i128,
    /// Writes of that history; 0 if it was only read, whose gain per write has no bound.
    writes: u64,
}

impl AccessTimes {
    /// A write to flash after `writes` others: `t_w + m·x`, up to its maximum.
    #[must_use]
    pub fn flash_write_after(&self, writes: u64) -> Span {
        let grown = u128::from(self.flash_write_slope.as_nanos()) * u128::from(writes)
            + u128::from(self.flash_write.as_nanos());
        let cap = self.flash_write_max.as_nanos().max(self.flash_write.as_nanos());
        Span::from_nanos(u64::try_from(grown).unwrap_or(u64::MAX).min(cap))
    }

    /// The gain of a cluster with this history, when flash has seen `flash_writes` writes so far.
    #[must_use]
    pub fn gain(&self, reads: u64, writes: u64, flash_writes: u64) -> Gain {
        let saved = i128::from(self.disk_random_read.as_nanos()) - i128::from(self.flash_read.as_nanos());
        let slowed = i128::from(self.flash_write_after(flash_writes).as_nanos())
            - i128::from(self.disk_random_write.as_nanos());
        Gain { total: i128::from(reads) * saved - i128::from(writes) * slowed, writes }
    }
}

impl Gain {
    /// Whether flash is the better place.
    #[must_use]
    pub const fn is_positive(&self) -> bool {
        self.total > 0
    }

    /// Nanoseconds saved over the whole history.
    #[must_use]
    pub const fn total_nanos(&self) -> i128 {
        self.total
    }
}

impl PartialEq for Gain {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Gain {}

impl PartialOrd for Gain {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Gain {
    /// By gain per write. Clusters that were never written gain without bound if reading them gains at
    /// all, lose without bound if it loses, and are equals among themselves.
    fn cmp(&self, other: &Self) -> Ordering {
        let infinite = |gain: &Self| if gain.writes == 0 { gain.total.signum() } else { 0 };
        infinite(self).cmp(&infinite(other)).then_with(|| {
            if self.writes == 0 || other.writes == 0 {
                return self.total.signum().cmp(&other.total.signum());
            }
            (self.total * i128::from(other.writes)).cmp(&(other.total * i128::from(self.writes)))
        })
    }
}

/// α_r·β_r·t_r = 5 ms and so on: a disk of 2008 beside a flash of 2008.
#[cfg(test)]
pub(crate) fn tests_times() -> AccessTimes {
    AccessTimes {
        disk_random_read: Span::from_micros(5000),
        disk_random_write: Span::from_micros(5500),
        flash_read: Span::from_micros(130),
        flash_write: Span::from_micros(400),
        flash_write_slope: Span::from_micros(1),
        flash_write_max: Span::from_micros(9000),
    }
}

#[cfg(test)]
mod tests {
    use super::tests_times as times;

    #[test]
    fn the_equation_of_section_4_2() {
        // A_rw = 3, x = 1000: 3·(5000 − 130) − (400 + 1000 − 5500) = 14 610 + 4 100 µs a write.
        let gain = times().gain(6, 2, 1000);
        assert_eq!(gain.total_nanos(), 2 * 18_710_000);
        // Saturated: 3·4870 − (9000 − 5500) = 11 110 µs.
        assert_eq!(times().gain(3, 1, 1_000_000_000).total_nanos(), 11_110_000);
    }

    #[test]
    fn writes_to_worn_flash_lose_and_reads_gain() {
        let worn = 1 << 40;
        assert!(!times().gain(0, 10, worn).is_positive());
        assert!(times().gain(10, 10, worn).is_positive());
        assert!(times().gain(0, 10, 0).is_positive(), "fresh flash is faster than the disk for writes too");
    }

    #[test]
    fn order_is_by_gain_per_write_and_readers_come_first() {
        let worn = 1 << 40;
        let reader = times().gain(1, 0, worn);
        let mostly_reader = times().gain(900, 100, worn);
        let writer = times().gain(1, 10, worn);
        assert!(reader > mostly_reader && mostly_reader > writer);
        assert_eq!(times().gain(1, 0, worn), times().gain(100, 0, worn));
        assert_eq!(times().gain(9, 1, worn), times().gain(90, 10, worn));
        assert!(times().gain(0, 0, 0) < reader);
    }
}
