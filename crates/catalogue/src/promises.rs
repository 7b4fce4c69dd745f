//! What is wrong with promises, whoever reads them: keys that the scheduler does not use, limits below what
//! is reserved, bursts that never hold a request. The gateway's configuration and scenarios ask here, so that
//! both refuse the same for the same reason; each knows the place in its own file.

use evenkeel_core::{Cost, Rate, Slo, SloError};

use crate::SchedulerKind;

/// What is wrong, and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

/// A key of a promise that only some schedulers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromiseKey {
    /// `reservation`.
    Reservation,
    /// `limit`.
    Limit,
    /// `sla` with so many classes.
    Classes(usize),
    /// `interactive`.
    Interactive,
}

impl PromiseKey {
    /// Whether `scheduler` uses it.
    #[must_use]
    pub const fn is_known_to(self, scheduler: SchedulerKind) -> bool {
        match self {
            Self::Reservation => scheduler.knows_reservations(),
            Self::Limit => scheduler.knows_limits(),
            Self::Classes(count) => count <= 1 || scheduler.knows_classes(),
            Self::Interactive => scheduler.knows_interactive(),
        }
    }

    /// What to say if `scheduler` does not use it; `place` is where the scheduler is named, as "in the store".
    #[must_use]
    pub fn objection(self, scheduler: SchedulerKind, place: &str) -> Option<Objection> {
        if self.is_known_to(scheduler) {
            return None;
        }
        let (message, keep, other) = match self {
            Self::Reservation | Self::Limit => (
                format!("{scheduler} does not use it, so it would promise something that nobody keeps"),
                "remove this line",
                SchedulerKind::MClock,
            ),
            Self::Classes(count) => (
                format!("{scheduler} knows one class, and these are {count}"),
                "keep one of them",
                SchedulerKind::Nested,
            ),
            Self::Interactive => (
                format!("{scheduler} makes no difference between volumes by it"),
                "remove this line",
                SchedulerKind::Cello,
            ),
        };
        Some(Objection { message, remedy: format!("{keep}, or write scheduler = \"{other}\" {place}") })
    }
}

/// What to say of a limit below what is reserved; mClock reserves the promised rate where no other
/// reservation is given.
#[must_use]
pub fn limit_objection(limit: Rate, reservation: Option<Rate>, promised: Option<Rate>) -> Option<Objection> {
    let least = reservation.or(promised).filter(|least| limit < *least)?;
    Some(Objection {
        message: format!("{limit} are less than the reservation of {least}"),
        remedy: "raise the limit, or lower the reservation or the promised rate".to_owned(),
    })
}

/// What to say of a promise that never holds a request that costs `cost`, which `words` name; such a request
/// is outside the promise whenever it comes. `or` is what else helps.
#[must_use]
pub fn burst_objection(slo: &Slo, cost: Cost, words: &str, or: &str) -> Option<Objection> {
    let Err(SloError::BurstBelowRequest { burst, .. }) = slo.covers(cost) else { return None };
    Some(Objection {
        message: format!("a burst of {burst} never holds {words}, which costs {cost}"),
        remedy: format!("write a burst of at least {cost}, {or}"),
    })
}

/// `slo` with a reservation and a limit that have been checked one by one.
#[must_use]
pub fn with_rates(slo: Slo, reservation: Option<Rate>, limit: Option<Rate>) -> Slo {
    let slo = match reservation {
        Some(rate) => slo.clone().with_reservation(rate).unwrap_or(slo),
        None => slo,
    };
    match limit {
        Some(rate) => slo.clone().with_limit(rate).unwrap_or(slo),
        None => slo,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Envelope, Span};

    #[test]
    fn a_key_is_objected_to_where_the_scheduler_does_not_use_it() {
        let keys =
            [PromiseKey::Reservation, PromiseKey::Limit, PromiseKey::Classes(2), PromiseKey::Interactive];
        for key in keys {
            let known = SchedulerKind::ALL.into_iter().filter(|kind| key.is_known_to(*kind)).count();
            assert!(known > 0, "{key:?} is of use to nobody");
            for kind in SchedulerKind::ALL {
                let objection = key.objection(kind, "here");
                assert_eq!(objection.is_none(), key.is_known_to(kind), "{key:?} {kind}");
                // What is advised helps.
                if let Some(Objection { remedy, .. }) = objection {
                    let advised = remedy.split('"').nth(1).and_then(SchedulerKind::by_name);
                    assert!(advised.is_some_and(|advised| key.is_known_to(advised)), "{remedy}");
                }
            }
        }
        assert!(SchedulerKind::ALL.into_iter().all(|kind| PromiseKey::Classes(1).is_known_to(kind)));
    }

    #[test]
    fn limits_and_bursts_are_held_against_what_they_must_hold() {
        let rate = Rate::per_second;
        assert_eq!(limit_objection(rate(10), None, None), None);
        assert_eq!(
            limit_objection(rate(10), Some(rate(10)), Some(rate(20))),
            None,
            "a reservation counts first"
        );
        let objection = limit_objection(rate(10), None, Some(rate(20))).expect("less than is promised");
        assert!(objection.message.starts_with("10 IOPS are less than the reservation of 20 IOPS"));
        let envelope = Envelope::new(Cost::requests(4), rate(10), Span::from_millis(5)).expect("it can be");
        let slo = Slo::guaranteed(envelope);
        assert_eq!(burst_objection(&slo, Cost::requests(4), "a READ", "or not"), None);
        let objection = burst_objection(&slo, Cost::requests(5), "a READ", "or not").expect("too small");
        assert_eq!(objection.message, "a burst of 4 never holds a READ, which costs 5");
        assert_eq!(objection.remedy, "write a burst of at least 5, or not");
        let both = with_rates(Slo::background(), Some(rate(3)), Some(rate(7)));
        assert_eq!((both.reservation(), both.limit()), (Some(rate(3)), Some(rate(7))));
    }
}
