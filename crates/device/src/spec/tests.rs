//! Descriptions: what they mean, and what is said about those that are wrong.

use super::*;
use crate::Io;
use evenkeel_core::{Operation, Time};
use proptest::prelude::*;

fn problems(text: &str) -> Vec<String> {
    let error = Spec::parse(text, "drive.toml").expect_err("this must be refused");
    error.to_string().lines().map(str::to_owned).collect()
}

const FLASH: &str = r#"
kind = "flash"
capacity = "64 KiB"
page = "2 KiB"
pages_per_block = 4
blocks_per_die = 16
read = "25 us"
program = "200 us"
erase = "1.5 ms"
"#;

#[test]
fn every_named_drive_is_read_and_says_where_it_is_from() {
    for name in Spec::names() {
        let text = Spec::text_of(name).expect("it has a name");
        let spec = Spec::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
        assert!(!spec.description().is_empty() && !spec.sources().is_empty(), "{name}");
        assert!(spec.capacity().is_some() && spec.parallelism().get() > 0);
    }
    assert!(Spec::names().is_sorted());
    assert_eq!(Spec::named("no such drive"), None);
}

#[test]
fn named_drives_take_the_times_of_their_sources() {
    // A page read of FlashSim: 32.725 us from the cells and four sectors of 15 us.
    let mut drive = Spec::named("flashsim-2009").expect("known").build();
    drive.submit(Time::ZERO, Io { token: 1, operation: Operation::Read, offset: 8192, length: 2048 });
    assert_eq!(drive.next_event(), Some(Time::from_nanos(92_725)));
    drive.poll_completion(Time::from_millis(1));
    drive.submit(Time::from_millis(1), Io { token: 2, operation: Operation::Write, offset: 0, length: 2048 });
    assert_eq!(drive.next_event(), Some(Time::from_nanos(1_161_500)));
}

#[test]
fn disks_are_read_like_anything_else() {
    let text = Spec::text_of("cheetah9lp").expect("known");
    let refused = |from: &str, to: &str| problems(&text.replacen(from, to, 1)).join("; ");
    let unknown = refused("rpm = ", "rmp = ");
    assert!(unknown.contains("drive.toml:") && unknown.contains("rmp"), "{unknown}");
    let zone = refused("sectors_per_track = 254", "sectors_per_track = 0");
    assert!(zone.contains("zone[0].sectors_per_track: 0 is out of range"), "{zone}");
    let disk = "device = \"ibm18es\"";
    let array = Spec::parse(&format!("kind = \"jbod\"\nmembers = [{{ {disk}, count = 2 }}]"), "array.toml");
    let one = Spec::named("ibm18es").expect("known").capacity().expect("a disk has one");
    assert_eq!(array.map(|array| array.capacity()), Ok(Some(2 * one)));
}

#[test]
fn arrays_of_anything_are_built() {
    let spec = Spec::parse(
        r#"
        kind = "raid"
        level = 5
        stripe_unit = "16 KiB"
        [[members]]
        device = { kind = "linear-flash", capacity = "1 GiB", page = "2 KiB", read = "33 us", write = "1 us", growth = "1 ns", saturation = 10 }
        count = 3
        [[members]]
        device = { kind = "constant-rate", rate = "100 IOPS", capacity = "2 GiB" }
        "#,
        "array.toml",
    )
    .expect("fine");
    assert_eq!((spec.capacity(), spec.parallelism().get()), (Some(3 << 30), 4));
    assert_eq!(spec.model().kind(), "raid");
    let behind = r#"
        kind = "bus"
        bandwidth = "100 MB/s"
        device = { kind = "jbod", members = { device = { kind = "linear-flash", capacity = "1 GiB", page = "2 KiB",
            read = "92725 ns", write = "1 us", growth = "1 ns", saturation = 10 }, count = 2 } }
    "#;
    let mut bus = Spec::parse(behind, "bus.toml").expect("fine").build();
    bus.submit(Time::ZERO, Io { token: 1, operation: Operation::Read, offset: 1 << 30, length: 2048 });
    let mut last = Time::ZERO;
    while let Some(at) = bus.next_event() {
        last = at;
        bus.poll_completion(at);
    }
    assert_eq!(last, Time::from_nanos(92_725 + 20_480));
}

#[test]
fn every_problem_is_told_with_its_line_and_remedy() {
    let text = FLASH.replace("page = \"2 KiB\"", "page = \"2 kb\"").replace("erase", "erasse");
    assert_eq!(
        problems(&text),
        [
            "drive.toml:1:1: erase: the key is missing; write erase = \"25 us\" or another time",
            "drive.toml:4:8: page: unknown unit \"kb\"; did you mean KiB (1024 B) or KB (1000 B)?",
            "drive.toml:9:1: erasse: unknown key; did you mean `erase`?",
        ]
    );
    assert_eq!(
        problems("kind = \"falsh\""),
        ["drive.toml:1:8: kind: \"falsh\" is not known here; write \"constant-rate\" or \"servers\" or \
          \"disk\" or \"flash\" or \"linear-flash\" or \"raid\" or \"jbod\" or \"bus\""]
    );
    assert_eq!(
        problems("kind = \"jbod\"\nmembers = { device = \"flashsim-209\" }"),
        [
            "drive.toml:2:22: members.device: no drive is called \"flashsim-209\"; did you mean \"flashsim-2009\"?"
        ]
    );
    assert!(problems("kind = ")[0].contains("not valid TOML"));
}

#[test]
fn rules_of_the_models_name_their_key() {
    let with = |from: &str, to: &str| problems(&FLASH.replace(from, to))[0].clone();
    assert_eq!(
        with("64 KiB", "100 KiB"),
        "drive.toml:3:12: capacity: 102400 B do not leave 5 blocks of every die to collect into; \
         write at most \"90112 B\", or more blocks_per_die"
    );
    assert_eq!(
        with("64 KiB", "1025 B"),
        "drive.toml:3:12: capacity: 1025 B are no positive multiple of the page, 2048 B; \
         write a multiple of the page"
    );
    assert!(with("blocks_per_die = 16", "blocks_per_die = 4294967295").contains("pages, more than"));
    assert!(with("kind", "map_cache = { protected = 1 }\nkind").contains("map_cache.probation"));
    let raid = |rest: &str| problems(&format!("kind = \"raid\"\nlevel = 5\n{rest}"))[0].clone();
    assert_eq!(
        raid("members = { device = \"flashsim-2009\", count = 2 }"),
        "drive.toml:3:11: members: 2 members make no such array; use at least 3"
    );
    assert_eq!(
        raid("members = { device = { kind = \"servers\", read = \"1 ms\" }, count = 3 }"),
        "drive.toml:3:11: members: member 0 has no capacity; give it one: capacity = \"1 GiB\""
    );
    assert!(raid("members = { device = \"flashsim-2009\", count = 4 }\nfailed = 4").contains("no member 4"));
}

#[test]
fn arrays_are_bounded_in_depth_and_number() {
    let mut text = String::from("\"flashsim-2009\"");
    for _ in 0..10 {
        text = format!("{{ kind = \"jbod\", members = {{ device = {text} }} }}");
    }
    let text = format!("kind = \"jbod\"\nmembers = {{ device = {text} }}");
    assert!(problems(&text)[0].contains("more than 8 deep"));
    let wide = "{ kind = \"jbod\", members = { device = \"flashsim-2009\", count = 4096 } }";
    let text = format!("kind = \"jbod\"\nmembers = {{ device = {wide}, count = 2 }}");
    assert!(problems(&text)[0].contains("more than 4096 devices"));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text: String) {
        let _ = Spec::parse(&text, "any.toml");
    }

    #[test]
    fn any_numbers_are_read_or_refused(numbers in prop::array::uniform5(any::<u32>()), unit in 0_u32..5000) {
        let [pages, blocks, dies, channels, below] = numbers;
        let text = format!(
            "kind = \"flash\"\ncapacity = \"1 MiB\"\npage = \"{unit} B\"\npages_per_block = {pages}\n\
             blocks_per_die = {blocks}\ndies_per_channel = {dies}\nchannels = {channels}\n\
             collect_below = {below}\nread = \"1 us\"\nprogram = \"1 us\"\nerase = \"1 us\"\n"
        );
        let _ = Spec::parse(&text, "any.toml");
    }
}
