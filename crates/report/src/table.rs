//! A table with named columns, as Parquet or as CSV.
//!
//! ```text
//!  Column  Text      UTF8    ──┐
//!          Whole     INT64     ├─ every value may be missing: null in Parquet, empty in CSV
//!          Real      DOUBLE  ──┘
//! ```
//!
//! For tables of results, which lie in memory as a whole; requests go through [`crate::RecordFile`].

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Text.
    Text(Vec<Option<String>>),
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// Numbers.
    Real(Vec<Option<f64>>),
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    columns: Vec<(String, Column)>,
}

impl Table {
    /// A table without columns.
    #[must_use]
    pub const fn new() -> Self {
        Self { columns: Vec::new() }
    }

    /// The table with one more column on the right; units stand at the end of its name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, column: Column) -> Self {
        self.columns.push((name.into(), column));
        self
    }

    /// Writes it as Parquet: one row group, compressed with Snappy.
    ///
    /// # Errors
    /// If columns are not equally long, or nothing can be written.
    pub fn write_parquet(&self, out: impl Write + Send) -> Result<()> {
        let rows = self.columns.first().map_or(0, |(_, column)| column.len());
        if let Some((name, _)) = self.columns.iter().find(|(_, column)| column.len() != rows) {
            return Err(ParquetError::General(format!("column {name} is not as long as the first")));
        }
        let fields = self.columns.iter().map(|(name, column)| column.field(name));
        let fields = fields.map(|field| field.map(Arc::new)).collect::<Result<_>>()?;
        let schema = Type::group_type_builder("row").with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        let mut columns = self.columns.iter();
        while let (Some(mut writer), Some((_, column))) = (group.next_column()?, columns.next()) {
            column.write(writer.untyped())?;
            writer.close()?;
        }
        group.close()?;
        writer.close()?;
        Ok(())
    }

    /// As CSV (RFC 4180), with a head.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let mut text = names.join(",") + "\n";
        for row in 0..self.columns.first().map_or(0, |(_, column)| column.len()) {
            let cells: Vec<String> = self.columns.iter().map(|(_, column)| column.cell(row)).collect();
            text += &(cells.join(",") + "\n");
        }
        text
    }
}

impl Column {
    const fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Whole(values) => values.len(),
            Self::Real(values) => values.len(),
        }
    }

    fn field(&self, name: &str) -> Result<Type> {
        let (physical, logical) = match self {
            Self::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Self::Whole(_) => (Physical::INT64, None),
            Self::Real(_) => (Physical::DOUBLE, None),
        };
        let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        field.with_logical_type(logical).build()
    }

    fn write(&self, out: &mut ColumnWriter<'_>) -> Result<()> {
        fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
            values.iter().map(|value| i16::from(value.is_some())).collect()
        }
        match (self, out) {
            (Self::Text(values), ColumnWriter::ByteArrayColumnWriter(out)) => {
                let bytes: Vec<ByteArray> =
                    values.iter().flatten().map(|text| ByteArray::from(text.as_str())).collect();
                out.write_batch(&bytes, Some(&levels(values)), None)?;
            }
            (Self::Whole(values), ColumnWriter::Int64ColumnWriter(out)) => {
                let numbers: Vec<i64> = values.iter().flatten().copied().collect();
                out.write_batch(&numbers, Some(&levels(values)), None)?;
            }
            (Self::Real(values), ColumnWriter::DoubleColumnWriter(out)) => {
                let numbers: Vec<f64> = values.iter().flatten().copied().collect();
                out.write_batch(&numbers, Some(&levels(values)), None)?;
            }
            _ => return Err(ParquetError::General("a column is not what its schema says".to_owned())),
        }
        Ok(())
    }

    fn cell(&self, row: usize) -> String {
        match self {
            Self::Text(values) => values[row].as_ref().map_or_else(String::new, |text| {
                if text.contains(['"', ',', '\n', '\r']) {
                    format!("\"{}\"", text.replace('"', "\"\""))
                } else {
                    text.clone()
                }
            }),
            Self::Whole(values) => values[row].map_or_else(String::new, |number| number.to_string()),
            Self::Real(values) => values[row].map_or_else(String::new, |number| number.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn what_is_written_can_be_read() {
        let text = |text: &str| Some(text.to_owned());
        let table = Table::new()
            .with("name", Column::Text(vec![text("a"), text("b,\"c\""), None]))
            .with("count", Column::Whole(vec![Some(3), None, Some(-1)]))
            .with("rate_iops", Column::Real(vec![None, Some(2.5), Some(1e9)]));
        assert_eq!(table.to_csv(), "name,count,rate_iops\na,3,\n\"b,\"\"c\"\"\",,2.5\n,-1,1000000000\n");
        let mut bytes = Vec::new();
        table.write_parquet(&mut bytes).expect("written");
        let path = std::env::temp_dir().join(format!("evenkeel-table-{}.parquet", std::process::id()));
        std::fs::write(&path, bytes).expect("writable");
        let reader = SerializedFileReader::try_from(path.as_path()).expect("readable");
        let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
        std::fs::remove_file(&path).expect("removable");
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[1].get_string(0).expect("a name"), "b,\"c\"");
        assert!(rows[1].get_long(1).is_err() && rows[0].get_double(2).is_err(), "null");
        assert_eq!((rows[2].get_long(1).ok(), rows[1].get_double(2).ok()), (Some(-1), Some(2.5)));
        let uneven = table.with("short", Column::Whole(Vec::new()));
        assert!(uneven.write_parquet(Vec::new()).is_err());
    }
}
