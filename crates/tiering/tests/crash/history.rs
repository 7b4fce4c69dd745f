//! What clients were told, and which content it allows.

/// One write, from one client's view. Times are steps of the run.
#[derive(Clone, Copy, Debug)]
struct Write {
    submitted: u64,
    /// When it was answered, with success or not; a crash answers everything.
    ended: Option<u64>,
    succeeded: bool,
    durable: bool,
    flow: u32,
}

/// All writes to all sectors.
#[derive(Debug)]
pub(crate) struct History {
    /// Number 0 stands for the content at the beginning.
    writes: Vec<Write>,
    sectors: Vec<Vec<u64>>,
}

impl History {
    pub(crate) fn new(sectors: usize) -> Self {
        let beginning = Write { submitted: 0, ended: Some(0), succeeded: true, durable: true, flow: 0 };
        Self { writes: vec![beginning], sectors: vec![vec![0]; sectors] }
    }

    pub(crate) fn submit(&mut self, now: u64, flow: u32, sectors: std::ops::Range<usize>) -> u64 {
        let number = self.writes.len() as u64;
        self.writes.push(Write { submitted: now, ended: None, succeeded: false, durable: false, flow });
        for sector in sectors {
            self.sectors[sector].push(number);
        }
        number
    }

    pub(crate) fn end(&mut self, now: u64, number: u64, succeeded: bool, is_fua: bool) {
        let write = &mut self.writes[number as usize];
        write.ended = Some(now);
        write.succeeded = succeeded;
        write.durable = succeeded && is_fua;
    }

    /// A flush of `flow` that was submitted at `submitted` succeeded.
    pub(crate) fn flush(&mut self, flow: u32, submitted: u64) {
        for write in &mut self.writes {
            let is_covered = write.ended.is_some_and(|ended| ended <= submitted);
            write.durable |= write.succeeded && is_covered && write.flow == flow;
        }
    }

    /// Power failed: nothing is under way any more.
    pub(crate) fn crash(&mut self, now: u64) {
        for write in &mut self.writes {
            write.ended.get_or_insert(now);
        }
    }

    /// After a crash: `value` is now what the sector holds, and nothing else may come back.
    pub(crate) fn settle(&mut self, sector: usize, value: u64) {
        self.sectors[sector] = vec![value];
    }

    /// Whether a read submitted at `submitted` may find `value`.
    pub(crate) fn check_read(&self, sector: usize, value: u64, submitted: u64) -> Result<(), String> {
        self.check(sector, value, |write| {
            write.succeeded && write.ended.is_some_and(|ended| ended <= submitted)
        })
    }

    /// Whether `value` may be there after a crash.
    pub(crate) fn check_recovered(&self, sector: usize, value: u64) -> Result<(), String> {
        self.check(sector, value, |write| write.durable)
    }

    /// No write that `binds` may have begun after `value` had ended: the sector would hold something older.
    fn check(&self, sector: usize, value: u64, binds: impl Fn(&Write) -> bool) -> Result<(), String> {
        if !self.sectors[sector].contains(&value) {
            return Err(format!("sector {sector} holds {value}, which was never written there"));
        }
        let found = &self.writes[value as usize];
        for &number in &self.sectors[sector] {
            let write = &self.writes[number as usize];
            if number != value && binds(write) && found.ended.is_some_and(|ended| ended < write.submitted) {
                return Err(format!(
                    "sector {sector} holds write {value} {found:?}, older than write {number} {write:?}"
                ));
            }
        }
        Ok(())
    }
}
