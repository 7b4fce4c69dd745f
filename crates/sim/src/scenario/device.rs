//! `[device]`: which model a scenario runs on. The only place that knows the models by name.

use std::num::NonZeroU32;

use evenkeel_core::{Envelope, Span};
use evenkeel_device::{ConstantRate, Device};
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::Checker;
use super::words::RateText;
use crate::random::{Law, Random};
use crate::server::RandomServers;

/// The device.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceSection {
    /// Accesses per second, all servers together.
    pub rate: RateText,
    /// Servers that work at the same time; each access takes servers / rate. 1 by default.
    pub servers: Option<u32>,
    /// How service times are distributed. "constant" by default.
    pub service: Option<ServiceKind>,
}

/// How service times are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceKind {
    /// Every access takes the same time.
    Constant,
    /// Exponential: the servers of queueing theory.
    Exponential,
}

const SERVERS_MAX: u32 = 65_536;

impl DeviceSection {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        if self.rate.0.as_millis() == 0 || self.rate.0 > Envelope::RATE_MAX {
            let remedy = format!("write a rate above 0 and up to {}", Envelope::RATE_MAX);
            let message = format!("{} is no rate that a device can have", self.rate.0);
            checker.refuse(&["device", "rate"], message, remedy);
        }
        if self.servers.is_some_and(|servers| servers == 0 || servers > SERVERS_MAX) {
            let remedy = format!("write a number from 1 to {SERVERS_MAX}");
            checker.refuse(&["device", "servers"], "no device has that many servers", remedy);
        }
    }

    /// Requests that it can work on at the same time.
    pub(super) fn servers(&self) -> NonZeroU32 {
        self.servers.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
    }

    pub(super) fn build(&self, seed: u64) -> Box<dyn Device + Send> {
        let (rate, servers) = (self.rate.0, self.servers());
        match self.service.unwrap_or(ServiceKind::Constant) {
            ServiceKind::Constant => Box::new(ConstantRate::new(rate, servers)),
            ServiceKind::Exponential => {
                let nanos = u64::from(servers.get()) * 1_000_000_000_000 / rate.as_millis().max(1);
                let law = Law::Exponential(Span::from_nanos(nanos));
                Box::new(RandomServers::new(servers, law, Random::new(seed, &[u64::MAX])))
            }
        }
    }
}
