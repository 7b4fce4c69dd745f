//! The arm: how long a movement of the heads takes.

use super::parameters::Parameters;

/// Where the heads are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// The cylinder.
    pub cylinder: u32,
    /// The selected head.
    pub head: u32,
}

/// The arm with its seek curve, laid out for every distance.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Nanoseconds by distance; 0 at distance 0.
    seek_ns: Vec<u32>,
    /// The shortest of the times from each distance upwards: curves that were measured dip.
    floor_ns: Vec<u32>,
    head_switch_ns: u64,
    write_settle_ns: u64,
    resettle_ns: u64,
}

impl Arm {
    /// The arm of a drive whose parameters are valid.
    #[must_use]
    pub fn new(parameters: &Parameters) -> Self {
        let seek_ns: Vec<u32> =
            (0..parameters.cylinders).map(|distance| interpolate(&parameters.seek_ns, distance)).collect();
        let mut floor_ns = seek_ns.clone();
        for distance in (1..floor_ns.len()).rev() {
            floor_ns[distance - 1] = floor_ns[distance - 1].min(floor_ns[distance]);
        }
        Self {
            seek_ns,
            floor_ns,
            head_switch_ns: parameters.head_switch_ns,
            write_settle_ns: parameters.write_settle_ns,
            resettle_ns: parameters
                .resettle_ns
                .unwrap_or_else(|| u64::from(interpolate(&parameters.seek_ns, 1)) * 2 / 3),
        }
    }

    /// The time to move from one track to another: the longer of seek and head switch, and for a write
    /// the settling after a movement; nothing if there is no movement.
    #[must_use]
    pub fn move_ns(&self, from: Track, to: Track, write: bool) -> u64 {
        let seek = self.seek_ns(from.cylinder.abs_diff(to.cylinder));
        let switch = if from.head == to.head { 0 } else { self.head_switch_ns };
        match seek.max(switch) {
            0 => 0,
            movement => movement + if write { self.write_settle_ns } else { 0 },
        }
    }

    /// The time to get ready on a track for an access that does not go on with the one before it.
    #[must_use]
    pub fn approach_ns(&self, from: Track, to: Track, write: bool) -> u64 {
        self.move_ns(from, to, write).max(self.resettle_ns)
    }

    /// The seek time for reads over `distance` cylinders.
    #[must_use]
    pub fn seek_ns(&self, distance: u32) -> u64 {
        self.seek_ns[distance as usize].into()
    }

    /// A time that no movement over at least `distance` cylinders is below.
    #[must_use]
    pub fn floor_ns(&self, distance: u32) -> u64 {
        u64::from(self.floor_ns[distance as usize]).max(self.resettle_ns)
    }
}

/// The curve at `distance`: straight between the points and along the last two beyond them. Integer,
/// rounded toward the nearer point's value.
fn interpolate(points: &[(u32, u64)], distance: u32) -> u32 {
    if distance == 0 || points.is_empty() {
        return 0;
    }
    let after = points.partition_point(|point| point.0 < distance);
    if points.get(after).is_some_and(|point| point.0 == distance) || points.len() == 1 {
        return u32::try_from(points[after.min(points.len() - 1)].1).unwrap_or(u32::MAX);
    }
    let after = after.clamp(1, points.len() - 1);
    let ((d0, t0), (d1, t1)) = (points[after - 1], points[after]);
    let rise = i128::from(t1) - i128::from(t0);
    let time = i128::from(t0) + i128::from(distance - d0) * rise / i128::from(d1 - d0);
    u32::try_from(time.max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::parameters::tests::small;

    fn track(cylinder: u32, head: u32) -> Track {
        Track { cylinder, head }
    }

    #[test]
    fn a_movement_is_the_longer_of_seek_and_switch_and_settles_for_writes() {
        let arm = Arm::new(&small());
        assert_eq!(arm.move_ns(track(3, 0), track(3, 0), true), 0);
        assert_eq!(arm.move_ns(track(3, 0), track(3, 1), false), 1_000_000);
        assert_eq!(arm.move_ns(track(3, 0), track(3, 1), true), 1_500_000);
        assert_eq!(arm.move_ns(track(3, 0), track(5, 1), false), 4_000_000);
        assert_eq!(arm.move_ns(track(5, 0), track(3, 0), true), 4_500_000);
    }

    #[test]
    fn an_access_of_its_own_settles_anew_where_the_heads_are() {
        let mut drive = small();
        drive.resettle_ns = Some(1_200_000);
        let arm = Arm::new(&drive);
        assert_eq!(arm.approach_ns(track(3, 0), track(3, 0), false), 1_200_000);
        assert_eq!(arm.approach_ns(track(3, 0), track(4, 0), false), 3_000_000);
        drive.resettle_ns = None;
        assert_eq!(Arm::new(&drive).approach_ns(track(3, 0), track(3, 0), false), 2_000_000);
    }

    #[test]
    fn lines_join_the_points_up_and_down_and_go_on_beyond_the_last() {
        let points = [(1, 10), (3, 20), (5, 15), (9, 35)];
        let times: Vec<u32> = [0, 1, 2, 3, 4, 5, 7, 9, 11].map(|d| interpolate(&points, d)).into();
        assert_eq!(times, [0, 10, 15, 20, 18, 15, 25, 35, 45]);
        assert_eq!(interpolate(&[(1, 7)], 100), 7);
    }

    #[test]
    fn the_floor_is_below_every_longer_seek() {
        let mut drive = small();
        drive.seek_ns = vec![(1, 3_000_000), (3, 5_000_000), (4, 4_000_000), (9, 9_000_000)];
        let arm = Arm::new(&drive);
        for distance in 0..10 {
            for further in distance..10 {
                assert!(further == 0 || arm.floor_ns(distance) <= arm.seek_ns(further));
            }
        }
        assert_eq!(arm.floor_ns(2), 4_000_000);
    }
}
