//! Flash as one line: writes become slower with every write, up to a limit.
//!
//! Jain, "QoS benefits of flash in a storage system" (MS thesis, Penn State, 2008), section 4.1 and
//! Table 4: a request of one flash page takes t_r to read and t_w + m·x to write, where x counts the
//! writes so far; the slow-down saturates in practice.
//!
//! ```text
//!  write time
//!  t_w + m·x_max ┤            ────────────      x_max writes: saturated
//!                │        ／
//!            t_w ┤───／                         x: writes so far, in pages
//!                └──────────────────────> x
//! ```
//!
//! Deviation: the thesis speaks of requests of one page. Larger requests take that time once per page
//! that they touch, each of a write's pages counting as one write. One access is served at a time.

use evenkeel_core::{Operation, Span, Time};

use crate::finishes::Finishes;
use crate::{Device, Finished, Io, ParameterError};

/// Parameters of [`LinearFlash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of the device.
    pub capacity: u64,
    /// Bytes of a page.
    pub page: u32,
    /// t_r: reading one page.
    pub read: Span,
    /// t_w: writing one page while the flash is fresh.
    pub write: Span,
    /// m: how much longer each further page write takes.
    pub growth: Span,
    /// x_max: the number of page writes after which it grows no further.
    pub saturation: u32,
    /// Whether the device begins at saturation, as all measurements of the thesis do.
    pub saturated: bool,
}

impl Parameters {
    /// Whether such a device can be.
    ///
    /// # Errors
    /// Names the parameter that cannot be.
    pub fn check(&self) -> Result<(), ParameterError> {
        if self.page == 0 {
            return Err(ParameterError::new("page", "a page holds something", "write a size above 0"));
        }
        let longest = u128::from(self.growth.as_nanos()) * u128::from(self.saturation);
        if longest + u128::from(self.write.as_nanos()) > u128::from(u64::MAX) / u128::from(u32::MAX) {
            let message = "a saturated write would take longer than can be counted";
            return Err(ParameterError::new("growth", message, "write a smaller growth or saturation"));
        }
        Ok(())
    }
}

/// The thesis's flash.
#[derive(Debug)]
pub struct LinearFlash {
    parameters: Parameters,
    /// x, never above the saturation.
    writes: u32,
    free: Time,
    finishes: Finishes,
}

impl LinearFlash {
    /// An idle device.
    ///
    /// # Errors
    /// See [`Parameters::check`].
    pub fn new(parameters: Parameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        let writes = if parameters.saturated { parameters.saturation } else { 0 };
        Ok(Self { parameters, writes, free: Time::ZERO, finishes: Finishes::default() })
    }

    /// What writing one page takes now: t_w + m·x.
    #[must_use]
    pub fn write_time(&self) -> Span {
        let slow_down = self.parameters.growth.as_nanos() * u64::from(self.writes);
        self.parameters.write + Span::from_nanos(slow_down)
    }

    /// Σ (t_w + m·x) over the next `pages` writes, in closed form.
    fn write(&mut self, pages: u64) -> u64 {
        let growing = pages.min(u64::from(self.parameters.saturation - self.writes));
        let first = u128::from(self.writes);
        self.writes += growing as u32;
        let (growing, pages) = (u128::from(growing), u128::from(pages));
        let steps = growing * first
            + growing * growing.saturating_sub(1) / 2
            + (pages - growing) * u128::from(self.writes);
        let nanos = u128::from(self.parameters.growth.as_nanos()) * steps
            + u128::from(self.parameters.write.as_nanos()) * pages;
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

impl Device for LinearFlash {
    fn submit(&mut self, now: Time, io: Io) {
        let now = self.finishes.advance(now);
        let end = io.offset.saturating_add(u64::from(io.length)).min(self.parameters.capacity);
        let page = u64::from(self.parameters.page);
        let pages = if io.offset < end { (end - 1) / page - io.offset / page + 1 } else { 0 };
        let busy = match io.operation {
            Operation::Read => pages.saturating_mul(self.parameters.read.as_nanos()),
            Operation::Write | Operation::WriteZeroes => self.write(pages),
            Operation::Flush | Operation::Trim => 0,
        };
        let busy = Span::from_nanos(busy);
        self.free = self.free.max(now) + busy;
        self.finishes.push(self.free, io.token, busy);
    }

    fn next_event(&self) -> Option<Time> {
        self.finishes.next()
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        self.finishes.poll(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parameters(saturated: bool) -> Parameters {
        Parameters {
            capacity: 1 << 30,
            page: 2048,
            read: Span::from_micros(33),
            write: Span::from_micros(100),
            growth: Span::from_micros(2),
            saturation: 50,
            saturated,
        }
    }

    fn busy(device: &mut LinearFlash, operation: Operation, offset: u64, length: u32) -> u64 {
        let at = device.free;
        device.submit(at, Io { token: 0, operation, offset, length });
        device.poll_completion(Time::from_nanos(u64::MAX)).expect("it finishes").busy.as_nanos()
    }

    #[test]
    fn writes_slow_down_along_the_line_and_saturate() {
        let mut fresh = LinearFlash::new(parameters(false)).expect("fine");
        let times: Vec<u64> = (0..53).map(|_| busy(&mut fresh, Operation::Write, 0, 2048) / 1_000).collect();
        assert_eq!((times[0], times[1], times[49], times[50], times[52]), (100, 102, 198, 200, 200));
        assert_eq!(busy(&mut fresh, Operation::Read, 0, 2048), 33_000);
        let mut warm = LinearFlash::new(parameters(true)).expect("fine");
        assert_eq!(busy(&mut warm, Operation::Write, 2047, 2), 400_000, "two pages are touched");
        assert_eq!(busy(&mut warm, Operation::Read, 1 << 30, 4096), 0, "beyond the end there is nothing");
    }

    proptest! {
        #[test]
        fn the_closed_form_is_the_sum(sizes in prop::collection::vec(1_u32..20, 1..20)) {
            let (mut whole, mut single) =
                (LinearFlash::new(parameters(false)).unwrap(), LinearFlash::new(parameters(false)).unwrap());
            for pages in sizes {
                let sum: u64 = (0..pages).map(|_| busy(&mut single, Operation::Write, 0, 2048)).sum();
                prop_assert_eq!(busy(&mut whole, Operation::Write, 0, 2048 * pages), sum);
            }
        }
    }
}
