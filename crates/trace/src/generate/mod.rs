//! Generators: requests without a trace, the same for the same seed on every machine.
//!
//! ```text
//!  Parameters ──> actors: ON/OFF sources, threads, instances of a benchmark
//!                   │ smallest time first
//!                   v
//!          Arrivals: when?   Program: which stream?   Stream: operation, size, volume, place
//!                   └──────────────────┴──────────────────────┴──> TraceRequest
//! ```
//!
//! Random numbers come from PCG XSL 128/64 (`rand_pcg`), logarithms and powers from `libm`: neither
//! differs between platforms.

use evenkeel_core::{Operation, Span, Time};

use crate::TraceRequest;

mod arrivals;
mod personality;
mod random;

pub use arrivals::Arrivals;
pub use personality::{Personality, UnknownPersonality};

use arrivals::Clockwork;
use random::Random;

/// Addresses lie on multiples of that many bytes.
const SECTOR: u64 = 512;
/// Extents of skewed popularity are 1 MiB long.
const EXTENT_BITS: u32 = 20;

/// What a generator makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// How many volumes there are, from 1.
    pub volumes: u32,
    /// The size of each in bytes; at least 1 MiB, a multiple of 512.
    pub volume_bytes: u64,
    /// What they ask.
    pub program: Program,
}

/// What is asked, one request after the other.
#[derive(Clone, Debug, PartialEq)]
pub enum Program {
    /// Each request is of one of these streams, with probability in proportion to its weight.
    Mix(Vec<(u32, Stream)>),
    /// Each of `threads` goes through the steps over and over; every request is the next step of a
    /// thread drawn at random.
    Script {
        /// How many threads there are.
        threads: u32,
        /// The steps.
        steps: Vec<Stream>,
    },
    /// Every volume is an instance that goes through the phases over and over, with the arrivals of
    /// the parameters while a phase lasts.
    Phases(Vec<Phase>),
}

/// A part of a benchmark: requests of one kind, then computation.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// How many requests it has in a row.
    pub requests: u32,
    /// What they ask, in turn.
    pub steps: Vec<Stream>,
    /// How long the instance computes afterwards.
    pub idle: Span,
    /// How often all that happens before the next phase begins.
    pub times: u32,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// What they ask.
    pub operation: Operation,
    /// Their sizes in bytes, each with a weight; none for a flush.
    pub sizes: Vec<(u32, u32)>,
    /// Where on the volume they go.
    pub place: Placement,
    /// The part of the volume that they go to, in thousandths from its front.
    pub region: (u32, u32),
}

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Placement {
    /// Anywhere, all places alike.
    Uniform,
    /// Extents of 1 MiB with popularity by rank to the power of `-skew` (Zipf's law by continuous
    /// inversion); ranks are scattered over the region; anywhere within an extent.
    Skewed {
        /// From 0, uniform, to below 1 or beyond; not exactly 1.
        skew: f64,
    },
    /// On from the last request of the stream; after `run` requests on average, from anywhere.
    Runs {
        /// Mean length of a run, in requests, from 1.
        run: u32,
    },
    /// On from the last request, from the front again at the end: a log, a file read whole.
    Sequential,
}

impl Stream {
    /// A stream over the whole volume, with requests of one size.
    #[must_use]
    pub fn new(operation: Operation, bytes: u32, place: Placement) -> Self {
        Self { operation, sizes: vec![(bytes, 1)], place, region: (0, 1000) }
    }

    /// The same with these sizes.
    #[must_use]
    pub fn sizes(mut self, sizes: &[(u32, u32)]) -> Self {
        self.sizes = sizes.to_vec();
        self
    }

    /// The same in a part of the volume.
    #[must_use]
    pub fn within(mut self, from: u32, to: u32) -> Self {
        self.region = (from, to);
        self
    }

    /// A flush.
    #[must_use]
    pub fn flush() -> Self {
        Self {
            operation: Operation::Flush,
            sizes: Vec::new(),
            place: Placement::Sequential,
            region: (0, 1000),
        }
    }
}

/// Parameters that make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {what}")]
pub struct ParameterError {
    /// Which of them.
    pub key: &'static str,
    /// What is wrong.
    pub what: &'static str,
}

impl Parameters {
    /// The same load with another mean rate, in requests per second. For phases, the rate of each
    /// instance while it is not computing.
    #[must_use]
    pub fn with_iops(mut self, iops: f64) -> Self {
        self.arrivals = self.arrivals.with_iops(iops);
        self
    }

    /// Whether they make sense.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), ParameterError> {
        let wrong = |key, what| Err(ParameterError { key, what });
        if let Err(what) = self.arrivals.check() {
            return wrong("arrivals", what);
        }
        if self.volumes == 0 || self.volumes > 4096 {
            return wrong("volumes", "there must be 1 to 4096");
        }
        if self.volume_bytes < 1 << 20 || !self.volume_bytes.is_multiple_of(SECTOR) {
            return wrong("volume_bytes", "must be at least 1 MiB and a multiple of 512");
        }
        let streams = self.program.streams();
        if streams.is_empty() {
            return wrong("program", "there must be a stream");
        }
        for stream in streams {
            let (from, to) = stream.region;
            if from >= to || to > 1000 {
                return wrong("region", "must be a range within 0 to 1000 thousandths");
            }
            let region = region_of(stream, self.volume_bytes);
            let longest = stream.sizes.iter().map(|(bytes, _)| u64::from(*bytes)).max().unwrap_or(0);
            if longest > region.1 - region.0 {
                return wrong("sizes", "a request is longer than its region of the volume");
            }
            let weights: u64 = stream.sizes.iter().map(|(_, weight)| u64::from(*weight)).sum();
            let flush = stream.operation == Operation::Flush;
            if !flush && (weights == 0 || stream.sizes.iter().any(|(bytes, _)| *bytes == 0)) {
                return wrong("sizes", "must be above 0, with a weight above 0");
            }
            if matches!(stream.place, Placement::Runs { run: 0 }) {
                return wrong("run", "must be at least 1");
            }
            if matches!(stream.place, Placement::Skewed { skew } if !(0.0..10.0).contains(&skew) || skew == 1.0)
            {
                return wrong("skew", "must be from 0 to 10, but not 1");
            }
        }
        self.program.check()
    }
}

impl Program {
    fn streams(&self) -> Vec<&Stream> {
        match self {
            Self::Mix(streams) => streams.iter().map(|(_, stream)| stream).collect(),
            Self::Script { steps, .. } => steps.iter().collect(),
            Self::Phases(phases) => phases.iter().flat_map(|phase| &phase.steps).collect(),
        }
    }

    fn check(&self) -> Result<(), ParameterError> {
        let wrong = |what| Err(ParameterError { key: "program", what });
        match self {
            Self::Mix(streams) if streams.iter().all(|(weight, _)| *weight == 0) => {
                wrong("a stream must have a weight above 0")
            }
            Self::Script { threads: 0, .. } => wrong("there must be a thread"),
            Self::Phases(phases)
                if phases
                    .iter()
                    .any(|phase| phase.requests == 0 || phase.times == 0 || phase.steps.is_empty()) =>
            {
                wrong("a phase must have requests and steps")
            }
            _ => Ok(()),
        }
    }
}

/// Makes requests for ever, in order of time, counted from the start of the generator; ends only where
/// time does, after 584 years. Memory: by volumes, streams and threads.
#[derive(Clone, Debug)]
pub struct Generator {
    program: Program,
    volumes: u32,
    volume_bytes: u64,
    /// The streams of the program, in order.
    streams: Vec<Stream>,
    random: Random,
    actors: Vec<Actor>,
    /// For each stream of each volume, where its next request goes on.
    cursors: Vec<u64>,
    /// For each thread of a script, its next step.
    threads: Vec<usize>,
}

/// A source of arrivals; of phases, an instance.
#[derive(Clone, Debug)]
struct Actor {
    clockwork: Clockwork,
    next: u64,
    phase: usize,
    /// Requests of the phase that were made in this row, and rows before it.
    done: u32,
    rows: u32,
}

impl Generator {
    /// A generator of `parameters`; the same `seed` makes the same requests.
    ///
    /// # Errors
    /// If the parameters make no sense.
    pub fn new(parameters: &Parameters, seed: u64) -> Result<Self, ParameterError> {
        parameters.check()?;
        let Parameters { arrivals, volumes, volume_bytes, program } = parameters.clone();
        let mut random = Random::new(seed);
        let phased = matches!(program, Program::Phases(_));
        let clockworks: Vec<Clockwork> = if phased {
            // Each instance has the whole rate, and starts at a time of its own within a second.
            let one = |_| arrivals.clockworks(&mut random).swap_remove(0);
            (0..volumes).map(one).collect()
        } else {
            arrivals.clockworks(&mut random)
        };
        let actor = |mut clockwork: Clockwork| {
            let next = clockwork.next(0, &mut random);
            Actor { clockwork, next, phase: 0, done: 0, rows: 0 }
        };
        let actors = clockworks.into_iter().map(actor).collect();
        let streams: Vec<Stream> = program.streams().into_iter().cloned().collect();
        let fronts: Vec<u64> = streams.iter().map(|stream| region_of(stream, volume_bytes).0).collect();
        let cursors = fronts.repeat(volumes as usize);
        let threads = match &program {
            Program::Script { threads, steps } => {
                (0..*threads as usize).map(|thread| thread * steps.len() / *threads as usize).collect()
            }
            _ => Vec::new(),
        };
        Ok(Self { program, volumes, volume_bytes, streams, random, actors, cursors, threads })
    }

    /// The stream of the next request of `actor` and the volume it goes to.
    fn choose(&mut self, actor: usize) -> (usize, u32) {
        let volume = self.random.below(u64::from(self.volumes)) as u32;
        match &self.program {
            Program::Mix(streams) => {
                let weights = streams.iter().map(|(weight, _)| *weight);
                (self.random.weighted(weights), volume)
            }
            Program::Script { steps, .. } => {
                let thread = self.random.below(self.threads.len() as u64) as usize;
                let step = self.threads[thread];
                self.threads[thread] = (step + 1) % steps.len();
                // A thread stays on its volume.
                (step, thread as u32 % self.volumes)
            }
            Program::Phases(phases) => {
                let instance = &mut self.actors[actor];
                let before: usize = phases[..instance.phase].iter().map(|phase| phase.steps.len()).sum();
                let phase = &phases[instance.phase];
                let stream = before + instance.done as usize % phase.steps.len();
                instance.done += 1;
                if instance.done == phase.requests {
                    instance.done = 0;
                    instance.rows += 1;
                    if instance.rows == phase.times {
                        instance.rows = 0;
                        instance.phase = (instance.phase + 1) % phases.len();
                    }
                    instance.next = instance.next.saturating_add(phase.idle.as_nanos());
                }
                (stream, actor as u32)
            }
        }
    }

    /// The size of a request of stream `number`, and where it goes on `volume`.
    fn place(&mut self, number: usize, volume: u32) -> (u64, u32) {
        let stream = &self.streams[number];
        if stream.operation == Operation::Flush {
            return (0, 0);
        }
        let random = &mut self.random;
        let weights = stream.sizes.iter().map(|(_, weight)| *weight);
        let size = stream.sizes[random.weighted(weights)].0;
        let length = u64::from(size);
        let (from, to) = region_of(stream, self.volume_bytes);
        let last = to - length;
        // Places lie on multiples of the size, as file systems and databases put them.
        let grain = length.next_power_of_two().clamp(SECTOR, 64 << 10);
        let anywhere = |random: &mut Random| from + random.below((last - from) / grain + 1) * grain;
        let cursor = &mut self.cursors[volume as usize * self.streams.len() + number];
        let offset = match stream.place {
            Placement::Uniform => anywhere(random),
            Placement::Skewed { skew } => {
                let extents = ((to - from) >> EXTENT_BITS).max(1);
                let extent = scattered(random.ranked(extents, skew), extents);
                let within = random.below((1 << EXTENT_BITS) / grain) * grain;
                (from + (extent << EXTENT_BITS) + within).min(last)
            }
            Placement::Runs { run } => {
                let jump = random.below(u64::from(run)) == 0;
                if jump || *cursor > last { anywhere(random) } else { *cursor }
            }
            Placement::Sequential if *cursor > last => from,
            Placement::Sequential => *cursor,
        };
        *cursor = offset + length;
        (offset, size)
    }
}

impl Iterator for Generator {
    type Item = TraceRequest;

    fn next(&mut self) -> Option<TraceRequest> {
        let actors = self.actors.iter().enumerate();
        let (actor, _) = actors.min_by_key(|(number, actor)| (actor.next, *number))?;
        let now = self.actors[actor].next;
        if now == u64::MAX {
            return None;
        }
        let (number, volume) = self.choose(actor);
        // Computation has moved the instance's time on; its arrivals go on from there.
        let from = self.actors[actor].next;
        let after = self.actors[actor].clockwork.next(from, &mut self.random);
        self.actors[actor].next = after;
        let (offset, length) = self.place(number, volume);
        let operation = self.streams[number].operation;
        Some(TraceRequest { at: Time::from_nanos(now), volume, operation, offset, length })
    }
}

/// Another place for each rank below `count`, so that popular extents are not neighbours: an odd
/// multiplier permutes the next power of two; walk on until below `count`.
fn scattered(rank: u64, count: u64) -> u64 {
    let mask = count.next_power_of_two() - 1;
    let mut place = rank;
    loop {
        place = place.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x7f4a_7c15) & mask;
        if place < count {
            return place;
        }
    }
}

/// The first byte of a stream's region, and the first after it.
fn region_of(stream: &Stream, volume_bytes: u64) -> (u64, u64) {
    let at = |thousandths: u32| volume_bytes / SECTOR * u64::from(thousandths) / 1000 * SECTOR;
    (at(stream.region.0), at(stream.region.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Statistics;

    fn statistics(personality: Personality, count: usize) -> Statistics {
        let mut statistics = Statistics::new();
        let generator = Generator::new(&personality.parameters(), 7).unwrap();
        generator.take(count).for_each(|request| statistics.add(&request));
        statistics
    }

    #[test]
    fn the_same_seed_makes_the_same_requests() {
        for personality in Personality::ALL {
            let parameters = personality.parameters();
            let make = |seed| Generator::new(&parameters, seed).unwrap().take(2000).collect::<Vec<_>>();
            assert_eq!(make(1), make(1), "{personality}");
            assert_ne!(make(1), make(2), "{personality}");
        }
    }

    #[test]
    fn requests_are_in_order_and_within_their_volume() {
        for personality in Personality::ALL {
            let parameters = personality.parameters();
            let mut last = Time::ZERO;
            for request in Generator::new(&parameters, 3).unwrap().take(20_000) {
                assert!(request.at >= last, "{personality}");
                last = request.at;
                assert!(
                    request.offset + u64::from(request.length) <= parameters.volume_bytes,
                    "{personality}"
                );
                assert!(request.volume < parameters.volumes, "{personality}");
                assert!(request.offset.is_multiple_of(SECTOR), "{personality}");
            }
        }
    }

    /// The figures that `docs/traces.md` gives a source for, made again: mean rate, reads in a hundred,
    /// mean size.
    #[test]
    fn personalities_match_their_published_figures() {
        let known: [(Personality, f64, f64, f64); 5] = [
            (Personality::WebSearch, 330.0, 99.9, 15_400.0),
            (Personality::Financial, 120.0, 23.0, 3_400.0),
            (Personality::TpcC, 235.0, 84.0, 8_300.0),
            (Personality::TpcH, 467.0, 99.0, 13_100.0),
            (Personality::Exchange, 910.0, 60.0, 0.0),
        ];
        for (personality, iops, reads, bytes) in known {
            let statistics = statistics(personality, 400_000);
            let off = |found: f64, wanted: f64| (found / wanted - 1.0).abs();
            assert!(off(statistics.mean_iops(), iops) < 0.2, "{personality} {}", statistics.mean_iops());
            let share = statistics.all().read_share() * 100.0;
            assert!((share - reads).abs() < 2.0, "{personality} {share}");
            let mean = statistics.sizes().mean();
            assert!(bytes == 0.0 || off(mean, bytes) < 0.1, "{personality} {mean}");
        }
    }

    #[test]
    fn bursty_personalities_burst_and_poisson_does_not() {
        let dispersion = |personality| statistics(personality, 100_000).windows()[3].dispersion();
        for personality in [Personality::Financial, Personality::Exchange, Personality::WebSearch] {
            assert!(dispersion(personality) > 3.0, "{personality} {}", dispersion(personality));
        }
        let calm = dispersion(Personality::Oltp);
        assert!((0.7..1.4).contains(&calm), "{calm}");
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let good = Personality::Oltp.parameters();
        let change = |change: fn(&mut Parameters)| {
            let mut parameters = good.clone();
            change(&mut parameters);
            Generator::new(&parameters, 1).map(|_| ()).expect_err("an error").key
        };
        assert_eq!(change(|it| it.volumes = 0), "volumes");
        assert_eq!(change(|it| it.volume_bytes = 1000), "volume_bytes");
        assert_eq!(change(|it| it.arrivals = Arrivals::Poisson { iops: 0.0 }), "arrivals");
        assert_eq!(change(|it| it.program = Program::Mix(Vec::new())), "program");
        assert_eq!(change(|it| it.volume_bytes = 1 << 20), "sizes");
    }

    /// As measured on the first 10 000 requests of the trace: 10.3 and 21.6.
    #[test]
    fn financial_bursts_as_the_trace_does() {
        let statistics = statistics(Personality::Financial, 300_000);
        let gaps = statistics.gaps().variation_squared();
        assert!((7.0..16.0).contains(&gaps), "{gaps}");
        let seconds = statistics.windows()[3].dispersion();
        assert!((14.0..34.0).contains(&seconds), "{seconds}");
    }
}
