//! Bytes of a trace, decompressed by content, with a look at the front.
//!
//! ```text
//!  file ──> counted ──> magic? ──┬─ 1f 8b        gzip, any number of members
//!                                ├─ 28 b5 2f fd  zstd, any number of frames
//!                                └─ else         as it is
//!                                     │
//!   buffer: [ consumed | start … end | free ]  <── fill
//! ```

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::reader::Compression;

/// Bytes that a recognition may look at.
pub(crate) const HEAD: usize = 64 << 10;
const BUFFER: usize = 256 << 10;
/// The largest zstd window that is accepted, so that a hostile file cannot ask for memory.
const ZSTD_WINDOW_MAX: u64 = 128 << 20;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A line, or what is left of the file.
pub(crate) struct Line<'b> {
    pub(crate) text: &'b [u8],
    /// Whether a newline ended it.
    pub(crate) ended: bool,
    /// Whether it was longer than a line may be; then `text` is only its front.
    pub(crate) too_long: bool,
}

pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    eof: bool,
    taken: Arc<AtomicU64>,
    pub(crate) compression: Compression,
}

impl Input {
    /// Decompresses `raw` if its content says that it is compressed.
    pub(crate) fn new(raw: impl Read + Send + 'static) -> io::Result<Self> {
        let taken = Arc::new(AtomicU64::new(0));
        let mut counted = BufReader::with_capacity(BUFFER, Counted { inner: raw, taken: Arc::clone(&taken) });
        let mut magic = [0_u8; 4];
        let mut known = 0;
        while known < magic.len() {
            match counted.read(&mut magic[known..])? {
                0 => break,
                read => known += read,
            }
        }
        let front = Cursor::new(magic[..known].to_vec());
        let whole = BufReader::with_capacity(BUFFER, front.chain(counted));
        let (source, compression): (Box<dyn Read + Send>, _) = if magic[..known].starts_with(&GZIP) {
            (Box::new(MultiGzDecoder::new(whole)), Compression::Gzip)
        } else if magic[..known].starts_with(&ZSTD) {
            (Box::new(ZstdFrames::new(whole)), Compression::Zstd)
        } else {
            (Box::new(whole), Compression::None)
        };
        Ok(Self { source, buffer: vec![0; BUFFER], start: 0, end: 0, eof: false, taken, compression })
    }

    /// Bytes of the file that were read so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The front of the trace, at most [`HEAD`] bytes, without consuming it.
    pub(crate) fn head(&mut self) -> io::Result<&[u8]> {
        self.have(HEAD)?;
        Ok(&self.buffer[self.start..self.end.min(self.start + HEAD)])
    }

    /// Whether nothing is left behind what [`Self::head`] showed.
    pub(crate) fn head_is_all(&self) -> bool {
        self.eof && self.end - self.start <= HEAD
    }

    /// The next line without its newline; `None` at the end.
    pub(crate) fn line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = 0;
        loop {
            let waiting = &self.buffer[self.start + searched..self.end];
            if let Some(at) = memchr::memchr(b'\n', waiting) {
                let from = self.start;
                let to = from + searched + at;
                self.start = to + 1;
                let text = self.buffer[from..to].strip_suffix(b"\r").unwrap_or(&self.buffer[from..to]);
                return Ok(Some(Line { text, ended: true, too_long: false }));
            }
            searched = self.end - self.start;
            if searched >= HEAD {
                return self.long_line().map(Some);
            }
            if !self.fill()? {
                let text = &self.buffer[self.start..self.end];
                self.start = self.end;
                return Ok((!text.is_empty()).then_some(Line { text, ended: false, too_long: false }));
            }
        }
    }

    /// The next `count` bytes, fewer only at the end.
    pub(crate) fn bytes(&mut self, count: usize) -> io::Result<&[u8]> {
        self.have(count)?;
        let count = count.min(self.end - self.start);
        let from = self.start;
        self.start += count;
        Ok(&self.buffer[from..from + count])
    }

    /// Skips up to `count` bytes; how many there were.
    pub(crate) fn skip(&mut self, count: u64) -> io::Result<u64> {
        let mut left = count;
        loop {
            let step = left.min((self.end - self.start) as u64);
            self.start += step as usize;
            left -= step;
            if left == 0 || !self.fill()? {
                return Ok(count - left);
            }
        }
    }

    /// Consumes a line that is longer than [`HEAD`] and keeps its front.
    fn long_line(&mut self) -> io::Result<Line<'_>> {
        const KEPT: usize = 80;
        let mut front = [0_u8; KEPT];
        front.copy_from_slice(&self.buffer[self.start..self.start + KEPT]);
        let mut ended = false;
        loop {
            match memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
                Some(at) => {
                    self.start += at + 1;
                    ended = true;
                    break;
                }
                None => {
                    self.start = self.end;
                    if !self.fill()? {
                        break;
                    }
                }
            }
        }
        // The front moves behind what is still to come; there is room, for a line was just consumed.
        if self.start < KEPT {
            self.buffer.splice(0..self.start, std::iter::repeat_n(0, KEPT));
            self.end += KEPT - self.start;
            self.start = KEPT;
        }
        let place = self.start - KEPT;
        self.buffer[place..self.start].copy_from_slice(&front);
        Ok(Line { text: &self.buffer[place..self.start], ended, too_long: true })
    }

    /// Reads on until `count` bytes are waiting or the end is reached.
    fn have(&mut self, count: usize) -> io::Result<()> {
        while self.end - self.start < count && self.fill()? {}
        Ok(())
    }

    /// Reads more bytes; `false` at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.eof {
            return Ok(false);
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.eof = true;
                    return Ok(false);
                }
                Ok(read) => {
                    self.end += read;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Counts what is read from the file.
struct Counted<R> {
    inner: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.taken.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The frames of a zstd file, one after the other, as if they were one.
struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(ZSTD_WINDOW_MAX);
        Self { source, decoder, within: false }
    }

    /// Starts the next frame, or skips one that is to be skipped; `false` at the end.
    fn start_frame(&mut self) -> io::Result<bool> {
        if self.source.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.reset(&mut self.source) {
            Ok(()) => self.within = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let length = u64::from(length);
                if io::copy(&mut self.source.by_ref().take(length), &mut io::sink())? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(invalid(&error.to_string())),
        }
        Ok(true)
    }

    fn check_sum(&self) -> io::Result<()> {
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stated), Some(found)) if stated != found => Err(invalid("the checksum of a frame differs")),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.within {
                if !self.start_frame()? {
                    return Ok(0);
                }
                continue;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            if self.decoder.is_finished() {
                self.check_sum()?;
                self.within = false;
                continue;
            }
            let step = BlockDecodingStrategy::UptoBlocks(1);
            self.decoder
                .decode_blocks(&mut self.source, step)
                .map_err(|error| invalid(&error.to_string()))?;
        }
    }
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives at most `step` bytes at a time.
    struct Slowly(Cursor<Vec<u8>>, usize);

    impl Read for Slowly {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(self.1);
            self.0.read(&mut buffer[..most])
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Lines of any length around the limit come as splitting says, long ones as their fronts.
        #[test]
        fn lines_are_as_splitting_says(
            lengths in prop::collection::vec(prop_oneof![0_usize..100, HEAD - 3..HEAD + 3, 200_000_usize..400_000], 1..8),
            step in 1_000_usize..100_000, ended: bool,
        ) {
            let line = |(number, length): (usize, &usize)| vec![b'a' + number as u8; *length];
            let lines: Vec<Vec<u8>> = lengths.iter().enumerate().map(line).collect();
            let mut text = lines.join(&b'\n');
            if ended {
                text.push(b'\n');
            }
            let mut input = Input::new(Slowly(Cursor::new(text), step)).unwrap();
            let last = lines.len() - 1;
            for (number, wanted) in lines.iter().enumerate() {
                if number == last && !ended && wanted.is_empty() {
                    break;
                }
                let found = input.line().unwrap().expect("a line");
                prop_assert_eq!(found.ended, number < last || ended);
                prop_assert!(wanted.starts_with(found.text));
                let right = if found.too_long { wanted.len() >= HEAD } else { found.text.len() == wanted.len() };
                prop_assert!(right);
            }
            prop_assert!(input.line().unwrap().is_none());
        }
    }
}
