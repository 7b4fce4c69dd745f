//! What is wrong with a text: every problem at once, each with its place and its remedy.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// At most this many problems are listed; the last one says how many more there are.
pub const PROBLEMS_MAX: usize = 200;

/// A text that was refused. Nothing of it has been applied.
///
/// Its `Display` is one line per problem, `FILE:LINE:COLUMN: KEY: MESSAGE; REMEDY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file as it was named.
    pub file: PathBuf,
    /// The text of the file; empty if it could not be read.
    pub text: String,
    /// The problems in the order of the file; never empty.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The bytes of the text that it is about; empty at 0 if it is about the whole file.
    pub span: Range<usize>,
    /// The key with its path, `volume.db.sla.rate`; empty if no key can be named.
    pub key: String,
    /// What is wrong, in one line without a full stop.
    pub message: String,
    /// What to do about it, in one line without a full stop.
    pub remedy: String,
}

impl ConfigError {
    /// Puts the problems in the order of the text, up to [`PROBLEMS_MAX`] of them.
    #[must_use]
    pub fn new(file: PathBuf, text: String, mut problems: Vec<Problem>) -> Self {
        problems.sort_by(|a, b| (a.span.start, &a.key, &a.message).cmp(&(b.span.start, &b.key, &b.message)));
        if problems.len() > PROBLEMS_MAX {
            let message = format!("{} more problems are not listed", problems.len() - (PROBLEMS_MAX - 1));
            problems.truncate(PROBLEMS_MAX - 1);
            let span = problems.last().map_or(0..0, |last| last.span.clone());
            let remedy = "correct those above first".to_owned();
            problems.push(Problem { span, key: String::new(), message, remedy });
        }
        Self { file, text, problems }
    }

    /// An error about the whole of `file`, none of whose text could be used.
    #[must_use]
    pub fn whole_file(file: &Path, message: String, remedy: &str) -> Self {
        let problem = Problem { span: 0..0, key: String::new(), message, remedy: remedy.to_owned() };
        Self { file: file.to_owned(), text: String::new(), problems: vec![problem] }
    }

    /// The line and column, both from 1, at which `problem` begins. Columns count characters.
    #[must_use]
    pub fn line_column(&self, problem: &Problem) -> (usize, usize) {
        // Not sliced at `span.start` directly: a caller's own problem may point into a character.
        let starts = self.text.char_indices().take_while(|(at, _)| *at < problem.span.start);
        starts
            .fold((1, 1), |(line, column), (_, c)| if c == '\n' { (line + 1, 1) } else { (line, column + 1) })
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let (line, column) = self.line_column(problem);
            write!(f, "{}:{line}:{column}: ", self.file.display())?;
            if !problem.key.is_empty() {
                write!(f, "{}: ", problem.key)?;
            }
            write!(f, "{}; {}", problem.message, problem.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
