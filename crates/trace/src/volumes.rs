//! Names of volumes, numbered in order of appearance.

use std::collections::HashMap;

use crate::text::Fault;

/// More volumes than that are not believed: the table would grow with a hostile file.
const VOLUMES_MAX: usize = 1 << 20;

/// ```text
///  name ──> last name the same? ──yes──> last number
///               │ no
///               └──> numbers: name -> number;  names: number -> name
/// ```
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    names: Vec<String>,
    numbers: HashMap<Box<[u8]>, u32>,
    last: Option<(Box<[u8]>, u32)>,
}

impl Volumes {
    /// The number of the volume called `name`.
    pub(crate) fn number(&mut self, name: &[u8]) -> Result<u32, Fault> {
        if let Some((last, number)) = &self.last
            && **last == *name
        {
            return Ok(*number);
        }
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => self.add(name)?,
        };
        self.last = Some((name.into(), number));
        Ok(number)
    }

    /// All names; the index is the number.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    fn add(&mut self, name: &[u8]) -> Result<u32, Fault> {
        if self.names.len() >= VOLUMES_MAX {
            return Err("there are more than 1 048 576 volumes");
        }
        let number = self.names.len() as u32;
        self.names.push(String::from_utf8_lossy(name).into_owned());
        self.numbers.insert(name.into(), number);
        Ok(number)
    }
}
