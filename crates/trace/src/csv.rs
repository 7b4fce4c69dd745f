//! CSV with an explicit mapping: which column holds what, and in which unit.

use std::fmt;
use std::str::FromStr;

use evenkeel_core::Operation;

use crate::number;
use crate::text::{Context, Fault, Found, Parsed, Raw};

/// A mapping as one writes it.
pub const EXAMPLE: &str = "time=1*us,operation=2,offset=3*512,length=4,volume=5,read=0,write=1";

/// The heading of the CSV files that Evenkeel writes; it maps itself.
pub const HEADING: &str = "at_ns,volume,operation,offset_bytes,length_bytes";

const COLUMNS_MAX: usize = 256;

/// Which column of a CSV trace holds what.
///
/// Written as `key=value` pairs: `time`, `offset` and `length` name a column (a number from 1, or a name
/// in the heading), optionally with `*unit` (`s`, `ms`, `us`, `100ns`, `ns` for the time; a number of
/// bytes for the others). `operation` and `volume` name columns. `read`, `write`, `flush`, `trim` and
/// `zero` give the word that stands for the operation. `separator` is `comma`, `semicolon`, `tab`,
/// `space` or `pipe`; `skip` is a number of lines before the data or the heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvMapping {
    time: (Column, u64),
    offset: (Column, u64),
    length: (Column, u64),
    operation: Option<Column>,
    volume: Option<Column>,
    words: Vec<(String, Operation)>,
    separator: u8,
    skip: u64,
}

/// A column by number, from 0, or by its heading.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    Number(usize),
    Heading(String),
}

/// A mapping that makes no sense, or does not fit the heading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// Not `key=value`, or a key that there is not.
    #[error("\"{0}\" is not one of its keys")]
    Key(String),
    /// A value that does not fit its key.
    #[error("{key}: \"{value}\" is not {expected}")]
    Value {
        /// Which key.
        key: String,
        /// What was there.
        value: String,
        /// What should be.
        expected: &'static str,
    },
    /// A key that is needed.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A key twice.
    #[error("{0} is there twice")]
    Twice(String),
    /// No column of the heading has that name.
    #[error("the heading has no column \"{0}\"")]
    NoColumn(String),
}

impl MappingError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::NoColumn(_) => "give a number from 1, or a name as the heading spells it".to_owned(),
            _ => format!("write it like {EXAMPLE}"),
        }
    }
}

impl CsvMapping {
    /// The mapping of the files that Evenkeel writes.
    #[must_use]
    pub fn own() -> Self {
        let text = "time=at_ns*ns,volume=volume,operation=operation,offset=offset_bytes,length=length_bytes";
        text.parse().expect("a constant mapping")
    }

    fn has_heading(&self) -> bool {
        let needed = [&self.time.0, &self.offset.0, &self.length.0];
        let all = needed.into_iter().chain(&self.operation).chain(&self.volume);
        all.into_iter().any(|column| matches!(column, Column::Heading(_)))
    }

    fn operation_of(&self, word: &[u8]) -> Option<Operation> {
        if !self.words.is_empty() {
            let found = self.words.iter().find(|(name, _)| name.as_bytes() == word);
            return found.map(|(_, operation)| *operation);
        }
        let names = [
            (&["read", "r"][..], Operation::Read),
            (&["write", "w"], Operation::Write),
            (&["flush", "f"], Operation::Flush),
            (&["trim", "discard", "d"], Operation::Trim),
            (&["write-zeroes"], Operation::WriteZeroes),
        ];
        let is = |name: &&str| name.as_bytes().eq_ignore_ascii_case(word);
        names.into_iter().find(|(names, _)| names.iter().any(&is)).map(|(_, operation)| operation)
    }
}

impl FromStr for CsvMapping {
    type Err = MappingError;

    fn from_str(text: &str) -> Result<Self, MappingError> {
        let mut seen: Vec<&str> = Vec::new();
        let (mut time, mut offset, mut length, mut operation, mut volume) = (None, None, None, None, None);
        let (mut words, mut separator, mut skip) = (Vec::new(), b',', 0);
        for pair in text.split(',') {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| MappingError::Key(pair.trim().to_owned()))?;
            let (key, value) = (key.trim(), value.trim());
            if seen.contains(&key) {
                return Err(MappingError::Twice(key.to_owned()));
            }
            seen.push(key);
            let wrong = |expected| MappingError::Value { key: key.into(), value: value.into(), expected };
            let mut word = |operation| words.push((value.to_owned(), operation));
            match key {
                "time" => {
                    time =
                        Some(scaled(value, time_unit).ok_or_else(|| {
                            wrong("a column with a unit (s, ms, us, 100ns or ns), like 1*us")
                        })?);
                }
                "offset" | "length" => {
                    let unit = |unit: &str| unit.parse().ok().filter(|bytes| *bytes > 0);
                    let found = scaled_or(value, unit, 1);
                    let found = found.ok_or_else(|| wrong("a column, or one like 3*512"))?;
                    if key == "offset" { offset = Some(found) } else { length = Some(found) }
                }
                "operation" => operation = Some(column(value).ok_or_else(|| wrong("a column"))?),
                "volume" => volume = Some(column(value).ok_or_else(|| wrong("a column"))?),
                "read" => word(Operation::Read),
                "write" => word(Operation::Write),
                "flush" => word(Operation::Flush),
                "trim" => word(Operation::Trim),
                "zero" => word(Operation::WriteZeroes),
                "separator" => {
                    separator =
                        separator_of(value).ok_or_else(|| wrong("comma, semicolon, tab, space or pipe"))?;
                }
                "skip" => skip = value.parse().map_err(|_| wrong("a number of lines"))?,
                _ => return Err(MappingError::Key(key.to_owned())),
            }
        }
        let need = |what: Option<_>, name| what.ok_or(MappingError::Missing(name));
        let (time, offset, length) = (need(time, "time")?, need(offset, "offset")?, need(length, "length")?);
        Ok(Self { time, offset, length, operation, volume, words, separator, skip })
    }
}

fn column(text: &str) -> Option<Column> {
    match text.parse::<usize>() {
        Ok(number) => (1..=COLUMNS_MAX).contains(&number).then(|| Column::Number(number - 1)),
        Err(_) => (!text.is_empty()).then(|| Column::Heading(text.to_owned())),
    }
}

fn scaled(text: &str, unit: impl Fn(&str) -> Option<u64>) -> Option<(Column, u64)> {
    let (name, unit_text) = text.rsplit_once('*')?;
    Some((column(name)?, unit(unit_text)?))
}

fn scaled_or(text: &str, unit: impl Fn(&str) -> Option<u64>, otherwise: u64) -> Option<(Column, u64)> {
    if text.contains('*') { scaled(text, unit) } else { Some((column(text)?, otherwise)) }
}

fn time_unit(text: &str) -> Option<u64> {
    Some(match text {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1_000,
        "100ns" => 100,
        "ns" => 1,
        _ => return None,
    })
}

fn separator_of(text: &str) -> Option<u8> {
    Some(match text {
        "comma" => b',',
        "semicolon" => b';',
        "tab" => b'\t',
        "space" => b' ',
        "pipe" => b'|',
        _ => return None,
    })
}

/// Reads lines by a mapping.
///
/// ```text
///  line ──split at separator──> cell 0 | cell 1 | …    columns: time, offset, length, operation, volume
/// ```
#[derive(Debug)]
pub(crate) struct CsvLines {
    mapping: CsvMapping,
    /// Positions of time, offset, length, operation and volume; `None` until the heading was seen.
    places: Option<[Option<usize>; 5]>,
    lines: u64,
}

impl CsvLines {
    pub(crate) fn new(mapping: CsvMapping) -> Self {
        let places = if mapping.has_heading() { None } else { resolve(&mapping, &[]).ok() };
        Self { mapping, places, lines: 0 }
    }

    /// Takes a line that is data, heading or to be skipped. A heading that does not fit is no fault of
    /// the line, but of the mapping: the outer error.
    pub(crate) fn parse(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Result<Parsed, Fault>, MappingError> {
        self.lines += 1;
        if self.lines <= self.mapping.skip {
            return Ok(Ok(Parsed::Nothing));
        }
        match self.places {
            Some(places) => Ok(self.data(line, places, context)),
            None => {
                let names: Vec<&[u8]> = split(line, self.mapping.separator).collect();
                self.places = Some(resolve(&self.mapping, &names)?);
                Ok(Ok(Parsed::Nothing))
            }
        }
    }

    fn data(&self, line: &[u8], places: [Option<usize>; 5], context: &mut Context<'_>) -> Found {
        let mut cells: [Option<&[u8]>; 5] = [None; 5];
        for (number, cell) in split(line, self.mapping.separator).enumerate() {
            for (place, slot) in places.iter().zip(&mut cells) {
                if *place == Some(number) {
                    *slot = Some(cell);
                }
            }
        }
        let [time, offset, length, operation, volume] = cells;
        let at = context.nanos(time.ok_or("there is no column for the time")?, self.mapping.time.1)?;
        let scaled = |cell: Option<&[u8]>, unit: u64, fault: Fault| {
            cell.and_then(number::whole).and_then(|value| value.checked_mul(unit)).ok_or(fault)
        };
        let offset = scaled(offset, self.mapping.offset.1, "the offset is no whole number")?;
        let length = scaled(length, self.mapping.length.1, "the length is no whole number")?;
        let operation = match (places[3], operation) {
            (None, _) => Operation::Read,
            (Some(_), Some(word)) => {
                self.mapping.operation_of(word).ok_or("the operation is none of the mapping's words")?
            }
            (Some(_), None) => return Err("there is no column for the operation"),
        };
        let volume = match (places[4], volume) {
            (None, _) => b"0",
            (Some(_), Some(name)) => name,
            (Some(_), None) => return Err("there is no column for the volume"),
        };
        let volume = context.volumes.number(volume)?;
        Raw::new(at, volume, operation, offset, length).map(Parsed::Request)
    }
}

fn split(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let cells = line.split(move |byte| *byte == separator);
    // Runs of spaces separate once.
    cells.filter(move |cell| separator != b' ' || !cell.is_empty()).map(unquoted)
}

fn unquoted(cell: &[u8]) -> &[u8] {
    let cell = cell.trim_ascii();
    cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")).unwrap_or(cell)
}

fn resolve(mapping: &CsvMapping, heading: &[&[u8]]) -> Result<[Option<usize>; 5], MappingError> {
    let place = |column: &Column| match column {
        Column::Number(number) => Ok(*number),
        Column::Heading(name) => heading
            .iter()
            .position(|cell| *cell == name.as_bytes())
            .ok_or_else(|| MappingError::NoColumn(name.clone())),
    };
    Ok([
        Some(place(&mapping.time.0)?),
        Some(place(&mapping.offset.0)?),
        Some(place(&mapping.length.0)?),
        mapping.operation.as_ref().map(place).transpose()?,
        mapping.volume.as_ref().map(place).transpose()?,
    ])
}

impl fmt::Display for CsvMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |column: &Column| match column {
            Column::Number(number) => (number + 1).to_string(),
            Column::Heading(name) => name.clone(),
        };
        let ((time, unit), (offset, block), (length, step)) = (&self.time, &self.offset, &self.length);
        write!(
            f,
            "time in column {} ({unit} ns), offset in {} ({block} B), length in {} ({step} B)",
            shown(time),
            shown(offset),
            shown(length)
        )
    }
}
