//! Any device model, slower or faster from some instant on.
//!
//! ```text
//!  model's time
//!     │            ╱ 1 ns of the model per 1/0.7 ns
//!     │        . ─ ╯        slope 0.7: a device with 30 % less capacity
//!     │      ╱
//!     │    ╱  slope 1
//!     └──────────────── time of the simulation
//!           change
//! ```
//!
//! The model lives in a time of its own, which runs at the device's speed. So every model, however it
//! works inside, can lose capacity in mid-run, and a request that is being served when the change comes is
//! served on at the new speed. The speed is exact in millionths: an instant of the simulation is
//! mapped to the model's by rounding down, an instant of the model to the first of the simulation that
//! maps to it or beyond. At the original speed both are the identity.

use evenkeel_core::{FlowId, Span, Time};
use evenkeel_device::{Device, Finished, Io, TierCounts};

/// The speed of a device that is as the model has it, in millionths.
pub const SPEED_ONE: u64 = 1_000_000;

/// A device model with a speed.
pub struct Dilated {
    inner: Box<dyn Device + Send>,
    /// Where the present piece of the line begins, outside and inside.
    outer_base: Time,
    inner_base: Time,
    /// Nanoseconds inside per million nanoseconds outside.
    speed: u64,
    /// Earlier pieces of the line: where each began inside, and its speed. One for each change.
    earlier: Vec<(Time, u64)>,
}

impl Dilated {
    /// `inner` at its own speed.
    #[must_use]
    pub fn new(inner: Box<dyn Device + Send>) -> Self {
        Self { inner, outer_base: Time::ZERO, inner_base: Time::ZERO, speed: SPEED_ONE, earlier: Vec::new() }
    }

    /// From `now` on the device runs at `speed` millionths of the model's speed; at 0 it stands still.
    pub fn set_speed(&mut self, now: Time, speed: u64) {
        self.earlier.push((self.inner_base, self.speed));
        self.inner_base = self.inside(now);
        self.outer_base = self.outer_base.max(now);
        self.speed = speed;
    }

    fn inside(&self, outer: Time) -> Time {
        let elapsed = u128::from(outer.since(self.outer_base).as_nanos()) * u128::from(self.speed);
        self.inner_base + Span::from_nanos(saturated(elapsed / u128::from(SPEED_ONE)))
    }

    fn outside(&self, inner: Time) -> Time {
        let elapsed = u128::from(inner.since(self.inner_base).as_nanos()) * u128::from(SPEED_ONE);
        if elapsed == 0 {
            return self.outer_base;
        }
        match self.speed {
            0 => Time::from_nanos(u64::MAX),
            speed => self.outer_base + Span::from_nanos(saturated(elapsed.div_ceil(u128::from(speed)))),
        }
    }
}

impl Dilated {
    /// What the model took for something that it ended at `end`, in time outside: a stretch for each speed at
    /// which the device ran meanwhile. Work of several servers or disks at once may be longer than the time that
    /// there was; what lies before the first instant is taken at the first speed.
    fn stretched(&self, busy: Span, end: Time) -> Span {
        let (mut left, mut end, mut sum) = (busy.as_nanos(), end, 0_u128);
        let present = (self.inner_base, self.speed);
        for (index, (begin, speed)) in std::iter::once(&present).chain(self.earlier.iter().rev()).enumerate()
        {
            let all_there_is = if index == self.earlier.len() { left } else { end.since(*begin).as_nanos() };
            let part = left.min(all_there_is);
            sum += (u128::from(part) * u128::from(SPEED_ONE)).div_ceil(u128::from(*speed).max(1));
            left -= part;
            if left == 0 {
                break;
            }
            end = end.min(*begin);
        }
        Span::from_nanos(saturated(sum))
    }
}

impl Device for Dilated {
    fn submit(&mut self, now: Time, io: Io) {
        let inside = self.inside(now);
        self.inner.submit(inside, io);
    }

    fn submit_for(&mut self, now: Time, flow: FlowId, io: Io) {
        let inside = self.inside(now);
        self.inner.submit_for(inside, flow, io);
    }

    fn next_event(&self) -> Option<Time> {
        self.inner.next_event().map(|at| self.outside(at))
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        let inside = self.inside(now);
        let finished = self.inner.poll_completion(inside)?;
        let busy =
            if self.earlier.is_empty() { finished.busy } else { self.stretched(finished.busy, finished.at) };
        Some(Finished { at: self.outside(finished.at), busy, ..finished })
    }

    fn tier_counts(&self) -> Option<TierCounts> {
        self.inner.tier_counts()
    }

    fn poll_own_work(&mut self) -> Option<(FlowId, Io)> {
        self.inner.poll_own_work()
    }
}

fn saturated(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Operation, Rate};
    use evenkeel_device::ConstantRate;
    use std::num::NonZeroU32;

    fn device() -> Dilated {
        Dilated::new(Box::new(ConstantRate::new(Rate::per_second(1_000), NonZeroU32::MIN)))
    }

    fn io(token: u64) -> Io {
        Io { token, operation: Operation::Read, offset: 0, length: 4096 }
    }

    #[test]
    fn at_its_own_speed_it_is_the_model() {
        let mut device = device();
        device.submit(Time::from_nanos(7), io(1));
        assert_eq!(device.next_event(), Some(Time::from_nanos(1_000_007)));
        let finished = device.poll_completion(Time::from_nanos(1_000_007)).expect("it is due");
        assert_eq!(finished.at, Time::from_nanos(1_000_007));
    }

    #[test]
    fn a_request_in_service_is_served_on_at_the_new_speed() {
        let mut device = device();
        device.submit(Time::ZERO, io(1));
        device.submit(Time::ZERO, io(2));
        // Half of the first is done; the other half takes 1 ms at half speed, the second one 2 ms.
        device.set_speed(Time::from_nanos(500_000), SPEED_ONE / 2);
        assert_eq!(device.next_event(), Some(Time::from_nanos(1_500_000)));
        assert_eq!(device.poll_completion(Time::from_nanos(1_499_999)), None);
        assert!(device.poll_completion(Time::from_nanos(1_500_000)).is_some());
        assert_eq!(device.next_event(), Some(Time::from_nanos(3_500_000)));
        // Standing still for a second, then as fast as ever: half of it is done by then.
        device.set_speed(Time::from_nanos(2_500_000), 0);
        assert_eq!(device.next_event(), Some(Time::from_nanos(u64::MAX)));
        device.set_speed(Time::from_nanos(1_002_500_000), SPEED_ONE);
        assert_eq!(device.next_event(), Some(Time::from_nanos(1_003_000_000)));
    }

    #[test]
    fn what_a_request_kept_the_device_busy_is_told_in_the_time_of_the_run() {
        let mut device = device();
        (1..=3).for_each(|token| device.submit(Time::ZERO, io(token)));
        // Half of the first at full speed, half at a quarter of it; a stop during the second.
        device.set_speed(Time::from_nanos(500_000), SPEED_ONE / 4);
        let mut busy = |at: u64| device.poll_completion(Time::from_nanos(at)).expect("it is due").busy;
        assert_eq!(busy(2_500_000).as_nanos(), 2_500_000);
        device.set_speed(Time::from_nanos(4_500_000), 0);
        device.set_speed(Time::from_nanos(9_500_000), SPEED_ONE);
        let mut busy = |at: u64| device.poll_completion(Time::from_nanos(at)).expect("it is due").busy;
        assert_eq!(
            busy(10_000_000).as_nanos(),
            2_500_000,
            "2 ms at a quarter, 0.5 ms; at rest it did nothing"
        );
        assert_eq!(busy(11_000_000).as_nanos(), 1_000_000);
    }

    #[test]
    fn thirty_percent_less_capacity_is_thirty_percent_less_work() {
        let mut device = device();
        device.set_speed(Time::ZERO, 700_000);
        (0..10_000).for_each(|token| device.submit(Time::ZERO, io(token)));
        let end = Time::from_millis(10_000);
        let done = std::iter::from_fn(|| device.poll_completion(end)).count();
        assert_eq!(done, 7_000);
    }
}
