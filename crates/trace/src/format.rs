//! The formats: their names, what they look like, and how sure a recognition is.

use std::fmt;
use std::str::FromStr;

/// A format of block traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Storage Performance Council, as in the UMass repository (Financial, WebSearch).
    Spc,
    /// MSR Cambridge.
    Msr,
    /// SYSTOR '17 (Fujitsu VDI).
    Systor17,
    /// Alibaba cloud block storage, 2020.
    Alibaba,
    /// Tencent cloud block storage, 2018.
    Tencent,
    /// CloudPhysics vscsi, first version.
    VscsiV1,
    /// CloudPhysics vscsi, second version.
    VscsiV2,
    /// Binary events of Linux blktrace.
    Blktrace,
    /// The text that blkparse prints by default.
    Blkparse,
    /// fio's I/O log, version 2.
    FioV2,
    /// fio's I/O log, version 3.
    FioV3,
    /// DiskSim's ASCII traces.
    DiskSim,
    /// MQSim's traces.
    MqSim,
    /// SSDsim's traces, 1 = read.
    SsdSim,
    /// Traces laid out like SSDsim's, but with 0 = read.
    SsdSimZeroReads,
    /// The transaction log of nbd-server.
    NbdLog,
    /// Lines of separated columns, with a mapping that says which is which.
    Csv,
    /// Evenkeel's own, in Apache Parquet.
    Parquet,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 18] = [
        Self::Spc,
        Self::Msr,
        Self::Systor17,
        Self::Alibaba,
        Self::Tencent,
        Self::VscsiV1,
        Self::VscsiV2,
        Self::Blktrace,
        Self::Blkparse,
        Self::FioV2,
        Self::FioV3,
        Self::DiskSim,
        Self::MqSim,
        Self::SsdSim,
        Self::SsdSimZeroReads,
        Self::NbdLog,
        Self::Csv,
        Self::Parquet,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spc => "spc",
            Self::Msr => "msr",
            Self::Systor17 => "systor17",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::VscsiV1 => "vscsi1",
            Self::VscsiV2 => "vscsi2",
            Self::Blktrace => "blktrace",
            Self::Blkparse => "blkparse",
            Self::FioV2 => "fio2",
            Self::FioV3 => "fio3",
            Self::DiskSim => "disksim",
            Self::MqSim => "mqsim",
            Self::SsdSim => "ssdsim",
            Self::SsdSimZeroReads => "ssdsim-0-reads",
            Self::NbdLog => "nbdlog",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }

    /// Its layout in one line.
    #[must_use]
    pub const fn layout(self) -> &'static str {
        match self {
            Self::Spc => "ASU,LBA (512 B),bytes,R|W,seconds",
            Self::Msr => "FILETIME (100 ns),host,disk,Read|Write,offset B,bytes,response",
            Self::Systor17 => "Unix seconds,response,R|W,LUN,offset B,bytes",
            Self::Alibaba => "device,R|W,offset B,bytes,microseconds",
            Self::Tencent => "Unix seconds,offset (512 B),sectors,0=read|1=write,volume",
            Self::VscsiV1 => "records of 32 bytes: sn,len,nSG,cmd,version 1,lbn,microseconds",
            Self::VscsiV2 => "records of 40 bytes: cmd,version 2,sn,len,nSG,lbn,microseconds,response",
            Self::Blktrace => "binary events of blktrace (magic 0x65617407)",
            Self::Blkparse => "major,minor cpu sequence seconds pid action RWBS sector + sectors [process]",
            Self::FioV2 => "fio version 2 iolog: file action offset B length B; waits in microseconds",
            Self::FioV3 => "fio version 3 iolog: time file action offset B length B",
            Self::DiskSim => "milliseconds device block (512 B) sectors flags (hexadecimal, bit 0 = read)",
            Self::MqSim => "nanoseconds device LBA (512 B) sectors 0=write|1=read",
            Self::SsdSim => "nanoseconds device LBA (512 B) sectors 0=write|1=read",
            Self::SsdSimZeroReads => "nanoseconds device LBA (512 B) sectors 0=read|1=write",
            Self::NbdLog => "transaction log of nbd-server: requests and replies, no times",
            Self::Csv => "columns, named by a mapping",
            Self::Parquet => "Parquet: at_ns, volume, operation, offset_bytes, length_bytes",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No format has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no trace format is called \"{name}\"; there are {}", Format::ALL.map(Format::name).join(", "))]
pub struct UnknownFormat {
    /// The name.
    pub name: String,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}

/// How sure it is that a trace has the format that it is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The user named it.
    Named,
    /// The file names it: a magic number or a heading.
    Certain,
    /// The file has no such mark, and this is the only layout that it fits.
    Likely {
        /// Lines (records) at the front of the file that fit.
        fitting: u32,
        /// Lines (records) that were looked at.
        examined: u32,
    },
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named => f.write_str("named by you"),
            Self::Certain => f.write_str("certain: the file says so itself"),
            Self::Likely { fitting, examined } => {
                write!(f, "likely: the only layout that fits, {fitting} of the first {examined} do")
            }
        }
    }
}
