//! A store that serves one request after the other, at an exact rate.

use std::collections::VecDeque;

use evenkeel_core::*;

/// Serves what `inputs` brings, each at its instant in ns and in their order, at `capacity` thousandths per second:
/// each record with the instant at which it was done, in ns times the capacity, so that nothing rounds.
pub fn serve(
    engine: &mut Engine,
    capacity: u128,
    inputs: impl IntoIterator<Item = (u64, Input)>,
) -> Vec<(Record, u128)> {
    let mut inputs: VecDeque<_> = inputs.into_iter().collect();
    let (mut now, mut records, mut at_store) = (0_u128, vec![], None);
    loop {
        let clock = Time::from_nanos(now.div_ceil(capacity) as u64);
        while let Some((at, input)) = inputs.pop_front_if(|(at, _)| *at <= clock.as_nanos()) {
            engine.handle_input(Time::from_nanos(at), input).unwrap();
        }
        if let Some(ticket) = at_store.take() {
            let done = Completion::new(ticket, Outcome::Done);
            engine.handle_input(clock, Input::Completion(done)).unwrap();
        }
        match engine.poll_output(clock) {
            Some(Output::Reply(record)) => records.push((record, now)),
            Some(Output::Submit(Submission { ticket, request })) => {
                now += u128::from(request.cost.as_millis()) * 1_000_000_000;
                at_store = Some(ticket);
            }
            None => {
                assert_eq!(engine.waiting(), 0, "work conservation");
                let Some((at, _)) = inputs.front() else { return records };
                now = now.max(u128::from(*at) * capacity);
            }
        }
    }
}
