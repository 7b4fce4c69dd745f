//! What it costs that flows appear, leave, return and change, and what they take up.

use evenkeel_core::{FlowId, Input, Rate, Slo, Span};

use crate::{BUSY_DEVICE, Boxed, Load, counting, slo};

/// Something that happens to one flow among many that have requests waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A flow that was idle sends a request; it is served before the next returns.
    Return,
    /// A new flow is configured and leaves again.
    AppearAndLeave,
    /// A flow with a request waiting gets another rate.
    Reconfigure,
}

impl Change {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Return, Self::AppearAndLeave, Self::Reconfigure];

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Return => "returns from idle",
            Self::AppearAndLeave => "appears and leaves",
            Self::Reconfigure => "changes its rate",
        }
    }

    /// Makes it happen; `turn` counts the calls. Half of the flows of `load`, the odd ones, must be
    /// idle for [`Change::Return`]: [`idle_half`].
    pub fn happen(self, load: &mut Load, flows: u32, turn: u32) {
        // A stride that is prime to every power of ten: flows take turns in no order that a cache would like.
        let flow = (u64::from(turn) * 7_919 % u64::from(flows)) as u32;
        match self {
            Self::Return => {
                // The flow that is served stays away from now on; the returning one takes its place.
                let gone = load.serve();
                load.arrive(if gone.is_multiple_of(2) { (gone + 1) % flows } else { gone - 1 });
            }
            Self::AppearAndLeave => {
                load.input(Input::Configure(FlowId(flows + turn % 64), slo(turn)));
                load.input(Input::Remove(FlowId(flows + turn % 64)));
            }
            Self::Reconfigure => {
                let rate = Rate::per_second(10 + u64::from(turn % 1_000));
                let old = slo(flow);
                let old = old.envelope().expect("guaranteed");
                let envelope = evenkeel_core::Envelope::new(old.burst(), rate, old.latency());
                load.input(Input::Configure(FlowId(flow), Slo::guaranteed(envelope.expect("in range"))));
            }
        }
    }
}

/// `flows` flows, an even number, of which every second has a request waiting.
#[must_use]
pub fn idle_half(scheduler: Boxed, flows: u32, service: Span) -> Load {
    let mut load = Load::new(scheduler, 0, service, slo);
    for flow in 0..flows {
        load.input(Input::Configure(FlowId(flow), slo(flow)));
    }
    (0..flows).step_by(2).for_each(|flow| load.arrive(flow));
    load
}

/// Bytes per flow and per waiting request.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Of an engine without flows.
    pub fixed: u64,
    /// Of a flow that has sent requests before and has none waiting: all tables of the engine and the
    /// scheduler, with the room that they keep for growing.
    pub per_idle_flow: f64,
    /// What a flow takes besides while requests of it wait, apart from these: a seat among FAIRIO's active
    /// classes, nothing under other schedulers.
    pub per_busy_flow: f64,
    /// Of each request that waits.
    pub per_waiting_request: f64,
}

/// Measures the memory at `flows` flows; the program must have [`counting::Counting`] as its allocator.
/// The flows take turns on a slow device, so that most have been idle for longer than any scheduler
/// remembers them as active.
#[must_use]
pub fn memory(scheduler: Boxed, flows: u32, slo: impl Fn(u32) -> Slo) -> Memory {
    let before = counting::bytes();
    let mut load = Load::new(scheduler, 0, BUSY_DEVICE, &slo);
    let fixed = counting::bytes();
    for flow in 0..flows {
        load.input(Input::Configure(FlowId(flow), slo(flow)));
    }
    // Several requests of each, so that it has been over its bound as well as inside it.
    for flow in 0..flows {
        for _ in 0..3 {
            load.arrive(flow);
            load.serve();
        }
    }
    let idle = counting::bytes();
    (0..flows).for_each(|flow| load.arrive(flow));
    let busy = counting::bytes();
    for _ in 0..8 {
        (0..flows).for_each(|flow| load.arrive(flow));
    }
    let flows = f64::from(flows);
    let per_waiting_request = (counting::bytes() - busy) as f64 / (8.0 * flows);
    Memory {
        fixed: fixed - before,
        per_idle_flow: (idle - fixed) as f64 / flows,
        per_busy_flow: ((busy - idle) as f64 / flows - per_waiting_request).max(0.0),
        per_waiting_request,
    }
}
