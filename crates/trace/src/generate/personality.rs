//! The workloads of the papers. `docs/traces.md` names the source of every parameter.

use std::fmt;
use std::str::FromStr;

use evenkeel_core::Operation::{Read, Write};
use evenkeel_core::Span;

use super::Placement::{Runs, Sequential, Skewed, Uniform};
use super::{Arrivals, Parameters, Phase, Program, Stream};

const K: u32 = 1 << 10;
const GIB: u64 = 1 << 30;

/// A workload by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Personality {
    /// TPC-C: small random reads and writes of a database, and its log.
    TpcC,
    /// TPC-H: scans of several tables at once.
    TpcH,
    /// Filebench varmail: files created, appended, synced and read.
    Varmail,
    /// Filebench webserver: files read whole, one log appended.
    WebServer,
    /// Filebench OLTP: small random reads, batches of writes, a log.
    Oltp,
    /// NAS BTIO, class A: steps of computation, then a dump.
    BtIo,
    /// MADbench2: whole matrices written, read and written, read.
    MadBench2,
    /// IOR with 64 KiB writes in random order, each synced.
    IorRandom,
    /// IOR with 64 KiB writes in sequence, each synced.
    IorSequential,
    /// IOR, half of the writes random and half in sequence.
    IorMixed,
    /// A search engine: SPC WebSearch.
    WebSearch,
    /// Transactions of a bank: SPC Financial.
    Financial,
    /// A mail server with a database: Microsoft Exchange.
    Exchange,
}

/// No personality has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no workload is called \"{name}\"; there are {}", Personality::ALL.map(Personality::name).join(", "))]
pub struct UnknownPersonality {
    /// The name.
    pub name: String,
}

impl Personality {
    /// Every personality.
    pub const ALL: [Self; 13] = [
        Self::TpcC,
        Self::TpcH,
        Self::Varmail,
        Self::WebServer,
        Self::Oltp,
        Self::BtIo,
        Self::MadBench2,
        Self::IorRandom,
        Self::IorSequential,
        Self::IorMixed,
        Self::WebSearch,
        Self::Financial,
        Self::Exchange,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TpcC => "tpcc",
            Self::TpcH => "tpch",
            Self::Varmail => "varmail",
            Self::WebServer => "webserver",
            Self::Oltp => "oltp",
            Self::BtIo => "btio",
            Self::MadBench2 => "madbench2",
            Self::IorRandom => "ior-random",
            Self::IorSequential => "ior-sequential",
            Self::IorMixed => "ior-mixed",
            Self::WebSearch => "websearch",
            Self::Financial => "financial",
            Self::Exchange => "exchange",
        }
    }

    /// What it is like, in one line.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::TpcC => "TPC-C: 8 KiB random, 84 % reads, a log; Poisson",
            Self::TpcH => "TPC-H: 99 % reads, scans of four tables between random reads; bursts",
            Self::Varmail => "Filebench varmail: create, append, sync, read; 16 KiB",
            Self::WebServer => "Filebench webserver: ten files read, one append to a log",
            Self::Oltp => "Filebench oltp: 2 KiB random reads and writes, 256 KiB log writes",
            Self::BtIo => "NAS BTIO class A: 10 MiB written every three time steps, four instances",
            Self::MadBench2 => "MADbench2: matrices of 128 MB written, read and written, read",
            Self::IorRandom => "IOR: 64 KiB random writes, each synced",
            Self::IorSequential => "IOR: 64 KiB sequential writes, each synced",
            Self::IorMixed => "IOR: 64 KiB writes, random and sequential, each synced",
            Self::WebSearch => "SPC WebSearch: 8 to 32 KiB reads, skewed, bursts",
            Self::Financial => "SPC Financial: small writes, 23 % reads, self-similar bursts",
            Self::Exchange => "Exchange: 8 KiB random and a log, strong bursts",
        }
    }

    /// Its parameters.
    #[must_use]
    pub fn parameters(self) -> Parameters {
        match self {
            Self::TpcC => tpcc(),
            Self::TpcH => tpch(),
            Self::Varmail => varmail(),
            Self::WebServer => webserver(),
            Self::Oltp => oltp(),
            Self::BtIo => btio(),
            Self::MadBench2 => madbench2(),
            Self::IorRandom | Self::IorSequential | Self::IorMixed => ior(self),
            Self::WebSearch => websearch(),
            Self::Financial => financial(),
            Self::Exchange => exchange(),
        }
    }
}

impl fmt::Display for Personality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Personality {
    type Err = UnknownPersonality;

    fn from_str(name: &str) -> Result<Self, UnknownPersonality> {
        let found = Self::ALL.into_iter().find(|personality| personality.name() == name);
        found.ok_or_else(|| UnknownPersonality { name: name.to_owned() })
    }
}

fn tpcc() -> Parameters {
    let pages = [(8 * K, 964), (16 * K, 15), (60 * K, 3), (512, 3)];
    Parameters {
        arrivals: Arrivals::Poisson { iops: 235.0 },
        volumes: 16,
        volume_bytes: 16 * GIB,
        program: Program::Mix(vec![
            (840, Stream::new(Read, 8 * K, Skewed { skew: 0.3 }).within(0, 950)),
            (130, Stream::new(Write, 8 * K, Skewed { skew: 0.3 }).sizes(&pages).within(0, 950)),
            (30, Stream::new(Write, 8 * K, Sequential).within(950, 1000)),
        ]),
    }
}

fn tpch() -> Parameters {
    let scan = |from, to| Stream::new(Read, 64 * K, Runs { run: 64 }).within(from, to);
    Parameters {
        arrivals: Arrivals::OnOff { iops: 467.0, sources: 4, on: 2.0, off: 2.0, shape: 1.6 },
        volumes: 1,
        volume_bytes: 30 * GIB,
        program: Program::Mix(vec![
            (25, scan(0, 400)),
            (25, scan(400, 600)),
            (25, scan(600, 750)),
            (15, scan(750, 900)),
            (900, Stream::new(Read, 8 * K, Skewed { skew: 0.5 })),
            (10, Stream::new(Write, 8 * K, Sequential).within(900, 1000)),
        ]),
    }
}

fn varmail() -> Parameters {
    let file = |operation| Stream::new(operation, 16 * K, Uniform).within(0, 900);
    let append = || Stream::new(Write, 8 * K, Uniform).sizes(&[(4 * K, 1), (8 * K, 2), (12 * K, 1)]);
    let journal = || Stream::new(Write, 4 * K, Sequential).within(900, 1000);
    let flush = Stream::flush;
    Parameters {
        arrivals: Arrivals::Poisson { iops: 250.0 },
        volumes: 4,
        volume_bytes: 2 * GIB,
        program: Program::Script {
            threads: 16,
            steps: vec![
                append().within(0, 900),
                journal(),
                flush(),
                file(Read),
                append().within(0, 900),
                journal(),
                flush(),
                file(Read),
            ],
        },
    }
}

fn webserver() -> Parameters {
    let mut steps = vec![Stream::new(Read, 16 * K, Skewed { skew: 0.7 }).within(0, 950); 10];
    steps.push(Stream::new(Write, 8 * K, Sequential).within(950, 1000));
    Parameters {
        arrivals: Arrivals::Poisson { iops: 300.0 },
        volumes: 1,
        volume_bytes: 2 * GIB,
        program: Program::Script { threads: 100, steps },
    }
}

fn oltp() -> Parameters {
    Parameters {
        arrivals: Arrivals::Poisson { iops: 500.0 },
        volumes: 1,
        volume_bytes: 2 * GIB,
        program: Program::Mix(vec![
            (3200, Stream::new(Read, 2 * K, Uniform).within(0, 900)),
            (320, Stream::new(Write, 2 * K, Uniform).within(0, 900)),
            (1, Stream::new(Write, 256 * K, Uniform).within(900, 1000)),
        ]),
    }
}

/// A dump is 64^3 cells of five doubles: 10 485 760 bytes, 160 requests; 200 time steps make 66 dumps,
/// which are read back for verification.
fn btio() -> Parameters {
    const DUMPS: u32 = 66;
    let dump = Phase {
        requests: 160,
        steps: vec![Stream::new(Write, 64 * K, Sequential)],
        idle: Span::from_millis(1_500),
        times: DUMPS,
    };
    let verify = Phase {
        requests: 160 * DUMPS,
        steps: vec![Stream::new(Read, 64 * K, Sequential)],
        idle: Span::from_millis(5_000),
        times: 1,
    };
    Parameters {
        arrivals: Arrivals::Poisson { iops: 400.0 },
        volumes: 4,
        volume_bytes: u64::from(DUMPS) * 10_485_760,
        program: Program::Phases(vec![dump, verify]),
    }
}

/// A matrix is 4000 × 4000 doubles, 128 MB: 1 953 requests; there are 16.
fn madbench2() -> Parameters {
    let matrix = |steps: Vec<Stream>, factor: u32| Phase {
        requests: 1_953 * factor,
        steps,
        idle: Span::from_millis(1_000),
        times: 16,
    };
    let (read, write) = (Stream::new(Read, 64 * K, Sequential), Stream::new(Write, 64 * K, Sequential));
    Parameters {
        arrivals: Arrivals::Poisson { iops: 46.0 },
        volumes: 4,
        volume_bytes: 2 * GIB,
        program: Program::Phases(vec![
            matrix(vec![write.clone()], 1),
            matrix(vec![read.clone(), write], 2),
            matrix(vec![read], 1),
        ]),
    }
}

fn ior(which: Personality) -> Parameters {
    let write = |place| vec![Stream::new(Write, 64 * K, place), Stream::flush()];
    let steps = match which {
        Personality::IorRandom => write(Uniform),
        Personality::IorSequential => write(Sequential),
        _ => [write(Uniform), write(Sequential)].concat(),
    };
    Parameters {
        arrivals: Arrivals::Poisson { iops: 200.0 },
        volumes: 4,
        volume_bytes: 3 * GIB,
        program: Program::Script { threads: 12, steps },
    }
}

fn websearch() -> Parameters {
    let sizes = [(8 * K, 601), (32 * K, 198), (16 * K, 122), (24 * K, 78), (512, 1)];
    Parameters {
        arrivals: Arrivals::OnOff { iops: 330.0, sources: 16, on: 1.0, off: 1.0, shape: 1.5 },
        volumes: 3,
        volume_bytes: 17 * GIB,
        program: Program::Mix(vec![
            (720, Stream::new(Read, 8 * K, Skewed { skew: 0.55 }).sizes(&sizes)),
            (279, Stream::new(Read, 8 * K, Runs { run: 8 }).sizes(&sizes)),
            (1, Stream::new(Write, 8 * K, Uniform)),
        ]),
    }
}

fn financial() -> Parameters {
    let reads = [(8 * K, 71), (512, 15), (3 * K, 6), (K, 5), (2 * K, 1)];
    let writes = [(3 * K, 30), (K, 17), (512, 13), (3584, 13), (8 * K, 5), (2560, 8), (1536, 8)];
    Parameters {
        arrivals: Arrivals::OnOff { iops: 120.0, sources: 8, on: 0.02, off: 0.58, shape: 1.8 },
        volumes: 24,
        volume_bytes: GIB,
        program: Program::Mix(vec![
            (230, Stream::new(Read, 8 * K, Skewed { skew: 0.8 }).sizes(&reads)),
            (440, Stream::new(Write, 3 * K, Skewed { skew: 0.8 }).sizes(&writes)),
            (330, Stream::new(Write, 3 * K, Runs { run: 16 }).sizes(&writes)),
        ]),
    }
}

fn exchange() -> Parameters {
    let pages = [(8 * K, 85), (16 * K, 8), (64 * K, 7)];
    Parameters {
        arrivals: Arrivals::BModel { iops: 910.0, bias: 0.65, levels: 20 },
        volumes: 8,
        volume_bytes: 32 * GIB,
        program: Program::Mix(vec![
            (600, Stream::new(Read, 8 * K, Skewed { skew: 0.6 }).sizes(&pages).within(0, 950)),
            (320, Stream::new(Write, 8 * K, Skewed { skew: 0.6 }).sizes(&pages).within(0, 950)),
            (80, Stream::new(Write, 4 * K, Sequential).within(950, 1000)),
        ]),
    }
}
