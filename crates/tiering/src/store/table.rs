//! A table whose rows keep their numbers; freed numbers are used again.

#[derive(Debug)]
pub(super) struct Table<T> {
    rows: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Takes memory for `rows` rows at once.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.rows.reserve(rows);
        self.free.reserve(rows);
    }

    pub(super) fn insert(&mut self, row: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.rows[index as usize] = Some(row);
            return index;
        }
        self.rows.push(Some(row));
        (self.rows.len() - 1) as u32
    }

    /// # Panics
    /// If there is no such row: the driver reported something twice, or something it was not asked for.
    pub(super) fn remove(&mut self, index: u32) -> T {
        let row = self.rows.get_mut(index as usize).and_then(Option::take);
        let row = row.expect("every access and copy is reported once");
        self.free.push(index);
        row
    }

    pub(super) fn row(&mut self, index: u32) -> &mut T {
        self.rows[index as usize].as_mut().expect("the row is in use")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() == self.free.len()
    }
}
