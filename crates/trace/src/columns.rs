//! Evenkeel's own format: a Parquet file that every data tool can open.
//!
//! ```text
//!  at_ns int64 | volume string | operation string | offset_bytes int64 | length_bytes int64
//!  row group 0: 65 536 requests │ row group 1 │ …        metadata: evenkeel.trace = 1
//! ```
//! Times are as written; a reader of Evenkeel counts them from the first unless told otherwise.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use evenkeel_core::Operation;
use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::error::ErrorKind;
use crate::text::{Context, Found, Parsed, Raw};

const SCHEMA: &str = "message evenkeel_trace {
    required int64 at_ns (INTEGER(64,false));
    required binary volume (UTF8);
    required binary operation (UTF8);
    required int64 offset_bytes (INTEGER(64,false));
    required int64 length_bytes (INTEGER(64,false));
}";
const NAMES: [&str; 5] = ["at_ns", "volume", "operation", "offset_bytes", "length_bytes"];
const MARK: &str = "evenkeel.trace";
const BATCH: usize = 4096;
const GROUP: usize = 1 << 16;

/// Whether the file begins and ends as Parquet does.
pub(crate) fn is_parquet(file: &File) -> bool {
    let mut magic = [0_u8; 4];
    let at = |offset: u64, magic: &mut [u8; 4]| file.read_exact_at(magic, offset).is_ok() && magic == b"PAR1";
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    size >= 12 && at(0, &mut magic) && at(size - 4, &mut magic)
}

/// Reads row group after row group, a batch of each column at a time.
pub(crate) struct ColumnsReader {
    file: SerializedFileReader<File>,
    group: usize,
    columns: Option<Columns>,
    next: usize,
}

struct Columns {
    at: Column<Int64Type>,
    volume: Column<ByteArrayType>,
    operation: Column<ByteArrayType>,
    offset: Column<Int64Type>,
    length: Column<Int64Type>,
}

struct Column<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
}

impl<T: DataType> Column<T> {
    fn new(reader: ColumnReader) -> Self {
        Self { reader: get_typed_column_reader(reader), values: Vec::with_capacity(BATCH) }
    }

    /// Reads the next batch; how many there are.
    fn fill(&mut self) -> Result<usize, ParquetError> {
        self.values.clear();
        let (records, _, _) = self.reader.read_records(BATCH, None, None, &mut self.values)?;
        Ok(records)
    }
}

impl ColumnsReader {
    pub(crate) fn open(file: File) -> Result<Self, ErrorKind> {
        let file = SerializedFileReader::new(file).map_err(|error| wrong(&error))?;
        let metadata = file.metadata().file_metadata();
        let fields = metadata.schema_descr();
        for (number, name) in NAMES.iter().enumerate() {
            let fits = fields.num_columns() == NAMES.len()
                && fields.column(number).name() == *name
                && fields.column(number).max_def_level() == 0
                && fields.column(number).physical_type() == expected(number);
            if !fits {
                return Err(ErrorKind::Parquet(format!("its columns are not {}", NAMES.join(", "))));
            }
        }
        let mut marks = metadata.key_value_metadata().into_iter().flatten();
        match marks.find(|pair| pair.key == MARK).and_then(|pair| pair.value.as_deref()) {
            None | Some("1") => {}
            Some(version) => {
                return Err(ErrorKind::Parquet(format!("its version is {version}, not 1")));
            }
        }
        Ok(Self { file, group: 0, columns: None, next: 0 })
    }

    /// How much of the file was read, from 0 to 1.
    pub(crate) fn share_read(&self) -> f64 {
        self.group as f64 / self.file.num_row_groups().max(1) as f64
    }

    pub(crate) fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Found>, ErrorKind> {
        loop {
            if let Some(columns) = &mut self.columns {
                if self.next < columns.at.values.len() {
                    let found = request(columns, self.next, context);
                    self.next += 1;
                    return Ok(Some(found));
                }
                self.next = 0;
                if columns.fill().map_err(|error| wrong(&error))? > 0 {
                    continue;
                }
                self.columns = None;
            }
            if self.group >= self.file.num_row_groups() {
                return Ok(None);
            }
            self.columns = Some(self.open_group().map_err(|error| wrong(&error))?);
            self.group += 1;
        }
    }

    fn open_group(&self) -> Result<Columns, ParquetError> {
        let group = self.file.get_row_group(self.group)?;
        Ok(Columns {
            at: Column::new(group.get_column_reader(0)?),
            volume: Column::new(group.get_column_reader(1)?),
            operation: Column::new(group.get_column_reader(2)?),
            offset: Column::new(group.get_column_reader(3)?),
            length: Column::new(group.get_column_reader(4)?),
        })
    }
}

impl Columns {
    fn fill(&mut self) -> Result<usize, ParquetError> {
        let counts = [
            self.at.fill()?,
            self.volume.fill()?,
            self.operation.fill()?,
            self.offset.fill()?,
            self.length.fill()?,
        ];
        if counts.iter().any(|count| *count != counts[0]) {
            return Err(ParquetError::General("its columns differ in length".to_owned()));
        }
        Ok(counts[0])
    }
}

fn expected(column: usize) -> parquet::basic::Type {
    if matches!(column, 1 | 2) { parquet::basic::Type::BYTE_ARRAY } else { parquet::basic::Type::INT64 }
}

fn request(columns: &Columns, row: usize, context: &mut Context<'_>) -> Found {
    let operation =
        operation_named(columns.operation.values[row].data()).ok_or("the operation is unknown")?;
    // Unsigned numbers are kept in signed ones of the same bits.
    let at = columns.at.values[row].cast_unsigned();
    let offset = columns.offset.values[row].cast_unsigned();
    let length = columns.length.values[row].cast_unsigned();
    let raw = Raw::new(at, 0, operation, offset, length)?;
    Ok(Parsed::Request(Raw { volume: context.volumes.number(columns.volume.values[row].data())?, ..raw }))
}

fn operation_named(name: &[u8]) -> Option<Operation> {
    let all = [Operation::Read, Operation::Write, Operation::Flush, Operation::Trim, Operation::WriteZeroes];
    all.into_iter().find(|operation| crate::operation_name(*operation).as_bytes() == name)
}

fn wrong(error: &ParquetError) -> ErrorKind {
    ErrorKind::Parquet(error.to_string())
}

/// Collects a row group, then writes it: memory does not depend on the length of the trace.
pub(crate) struct ColumnsWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    at: Vec<i64>,
    volume: Vec<ByteArray>,
    operation: Vec<ByteArray>,
    offset: Vec<i64>,
    length: Vec<i64>,
    names: Vec<ByteArray>,
}

impl<W: Write + Send> ColumnsWriter<W> {
    pub(crate) fn new(sink: W) -> Result<Self, ParquetError> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("evenkeel ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(vec![KeyValue::new(MARK.to_owned(), "1".to_owned())]))
            .build();
        let file = SerializedFileWriter::new(sink, schema, Arc::new(properties))?;
        let numbers = || Vec::with_capacity(GROUP);
        let (volume, operation) = (Vec::with_capacity(GROUP), Vec::with_capacity(GROUP));
        let (at, offset, length) = (numbers(), numbers(), numbers());
        Ok(Self { file, at, volume, operation, offset, length, names: Vec::new() })
    }

    pub(crate) fn write(
        &mut self,
        request: &crate::TraceRequest,
        volumes: &[String],
    ) -> Result<(), ParquetError> {
        for name in &volumes[self.names.len().min(volumes.len())..] {
            self.names.push(ByteArray::from(name.as_bytes().to_vec()));
        }
        self.at.push(request.at.as_nanos().cast_signed());
        let unnamed = || ByteArray::from(request.volume.to_string().into_bytes());
        self.volume.push(self.names.get(request.volume as usize).cloned().unwrap_or_else(unnamed));
        self.operation.push(ByteArray::from(crate::operation_name(request.operation)));
        self.offset.push(request.offset.cast_signed());
        self.length.push(i64::from(request.length));
        if self.at.len() >= GROUP { self.flush_group() } else { Ok(()) }
    }

    pub(crate) fn finish(mut self) -> Result<W, ParquetError> {
        if !self.at.is_empty() {
            self.flush_group()?;
        }
        self.file.into_inner()
    }

    fn flush_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        let mut column = 0;
        while let Some(mut writer) = group.next_column()? {
            match column {
                0 => writer.typed::<Int64Type>().write_batch(&self.at, None, None)?,
                1 => writer.typed::<ByteArrayType>().write_batch(&self.volume, None, None)?,
                2 => writer.typed::<ByteArrayType>().write_batch(&self.operation, None, None)?,
                3 => writer.typed::<Int64Type>().write_batch(&self.offset, None, None)?,
                _ => writer.typed::<Int64Type>().write_batch(&self.length, None, None)?,
            };
            writer.close()?;
            column += 1;
        }
        group.close()?;
        self.at.clear();
        self.volume.clear();
        self.operation.clear();
        self.offset.clear();
        self.length.clear();
        Ok(())
    }
}
