//! Requests as Parquet: a row for each, in columns that any data tool reads.
//!
//! ```text
//!  flow        UTF8     name                arrival_ns     INT64
//!  id          INT64                        dispatch_ns    INT64
//!  operation   UTF8                         completion_ns  INT64
//!  offset      INT64    bytes               latency_ns     INT64
//!  length      INT32    bytes               class          INT32, null outside
//!                                           promise_ns     INT64, null outside
//! ```
//!
//! Rows come in the order of completion, in groups of 65 536, so memory does not grow with the run.

use std::io::Write;
use std::sync::Arc;

use evenkeel_core::Record;
use evenkeel_sim::event_log::operation_name;
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

const GROUP: usize = 65_536;

const SCHEMA: &str = "message request {
  required binary flow (UTF8);
  required int64 id;
  required binary operation (UTF8);
  required int64 offset;
  required int32 length;
  required int64 arrival_ns;
  required int64 dispatch_ns;
  required int64 completion_ns;
  required int64 latency_ns;
  optional int32 class;
  optional int64 promise_ns;
}";

/// A Parquet file of requests in the making.
pub struct RecordFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    names: Vec<ByteArray>,
    pending: Vec<Record>,
    failure: Option<ParquetError>,
}

impl<W: Write + Send> RecordFile<W> {
    /// A file that is written to `out`; `names` are those of the flows, by number.
    ///
    /// # Errors
    /// If nothing can be written.
    pub fn new(out: W, names: &[String]) -> Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
        let names = names.iter().map(|name| ByteArray::from(name.as_str())).collect();
        Ok(Self { writer, names, pending: Vec::with_capacity(GROUP), failure: None })
    }

    /// Adds a request. A failure to write is told by [`RecordFile::finish`].
    pub fn push(&mut self, record: &Record) {
        self.pending.push(*record);
        if self.pending.len() == GROUP
            && let Err(failure) = self.write_group()
        {
            self.failure.get_or_insert(failure);
        }
    }

    /// Writes what is left and the file's end.
    ///
    /// # Errors
    /// The first failure to write, if there was one.
    pub fn finish(mut self) -> Result<()> {
        self.write_group()?;
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.writer.close()?;
        Ok(())
    }

    fn write_group(&mut self) -> Result<()> {
        if self.pending.is_empty() || self.failure.is_some() {
            self.pending.clear();
            return Ok(());
        }
        let unknown = ByteArray::from("?");
        let name = |record: &Record| {
            self.names.get(record.request.flow.0 as usize).cloned().unwrap_or_else(|| unknown.clone())
        };
        let mut group = self.writer.next_row_group()?;
        let mut column = 0;
        while let Some(mut writer) = group.next_column()? {
            let rows = &self.pending;
            match writer.untyped() {
                ColumnWriter::ByteArrayColumnWriter(out) => {
                    let values: Vec<ByteArray> = match column {
                        0 => rows.iter().map(name).collect(),
                        _ => rows.iter().map(|row| operation_name(row.request.operation).into()).collect(),
                    };
                    out.write_batch(&values, None, None)?;
                }
                ColumnWriter::Int32ColumnWriter(out) if column == 4 => {
                    let values: Vec<i32> = rows.iter().map(|row| row.request.length as i32).collect();
                    out.write_batch(&values, None, None)?;
                }
                ColumnWriter::Int32ColumnWriter(out) => {
                    let values: Vec<i32> =
                        rows.iter().filter_map(|row| Some(i32::from(row.class?) + 1)).collect();
                    let defined: Vec<i16> = rows.iter().map(|row| i16::from(row.class.is_some())).collect();
                    out.write_batch(&values, Some(&defined), None)?;
                }
                ColumnWriter::Int64ColumnWriter(out) if column == 10 => {
                    let values: Vec<i64> =
                        rows.iter().filter_map(|row| Some(row.promise?.as_nanos() as i64)).collect();
                    let defined: Vec<i16> = rows.iter().map(|row| i16::from(row.promise.is_some())).collect();
                    out.write_batch(&values, Some(&defined), None)?;
                }
                ColumnWriter::Int64ColumnWriter(out) => {
                    let values: Vec<i64> = rows.iter().map(|row| whole(row, column) as i64).collect();
                    out.write_batch(&values, None, None)?;
                }
                _ => {}
            }
            writer.close()?;
            column += 1;
        }
        group.close()?;
        self.pending.clear();
        Ok(())
    }
}

/// The value of a column of whole numbers, by its place in the schema.
fn whole(row: &Record, column: usize) -> u64 {
    match column {
        1 => row.request.id.0,
        3 => row.request.offset,
        5 => row.arrival.as_nanos(),
        6 => row.dispatch.as_nanos(),
        7 => row.completion.as_nanos(),
        _ => row.latency().as_nanos(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Cost, FlowId, Operation, Outcome, Request, RequestId, Span, Time};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn what_is_written_can_be_read() {
        let record = |id: u64| Record {
            request: Request {
                id: RequestId(id),
                flow: FlowId((id % 2) as u32),
                operation: Operation::Write,
                offset: 4096 * id,
                length: 512,
                cost: Cost::ONE,
            },
            arrival: Time::from_nanos(id),
            dispatch: Time::from_nanos(id + 1),
            completion: Time::from_nanos(id + 3),
            promise: id.is_multiple_of(2).then_some(Span::from_millis(1)),
            class: id.is_multiple_of(2).then_some(0),
            outcome: Outcome::Done,
        };
        let path = std::env::temp_dir().join(format!("evenkeel-records-{}.parquet", std::process::id()));
        let out = std::fs::File::create(&path).expect("writable");
        let names = ["even".to_owned(), "odd".to_owned()];
        let mut file = RecordFile::new(out, &names).expect("a good schema");
        let count = GROUP as u64 + 5;
        (0..count).for_each(|id| file.push(&record(id)));
        file.finish().expect("written");
        let reader = SerializedFileReader::try_from(path.as_path()).expect("readable");
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
        assert_eq!(rows.len() as u64, count);
        let (even, odd) = (&rows[GROUP], &rows[GROUP + 1]);
        assert_eq!(even.get_string(0).expect("a name"), "even");
        assert_eq!(even.get_string(2).expect("an operation"), "write");
        assert_eq!(even.get_long(3).expect("an offset"), 4096 * GROUP as i64);
        assert_eq!((even.get_int(4).expect("a length"), even.get_int(9).expect("a class")), (512, 1));
        assert_eq!(
            (even.get_long(8).expect("a latency"), even.get_long(10).expect("a promise")),
            (3, 1_000_000)
        );
        assert_eq!(odd.get_string(0).expect("a name"), "odd");
        assert!(odd.get_int(9).is_err() && odd.get_long(10).is_err(), "null");
        std::fs::remove_file(&path).expect("removable");
    }
}
