//! Values as users write them: with units, exact, and known to the schema.

use std::borrow::Cow;
use std::fmt;

use evenkeel_core::{Cost, Permille, Rate, Span, SpareCapacity};
use evenkeel_strict::values::{self, BYTES, Fault, Quantity, RATE, TIME};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// What stands between the message and the remedy in the text of an error.
pub(super) const REMEDY: &str = "; ";

fn told<E: Error>(fault: &Fault) -> E {
    E::custom(format_args!("{}{REMEDY}{}", fault.message, fault.remedy))
}

/// Reads a text by its units; a bare number is told which units there are.
struct InUnits<T> {
    quantity: &'static Quantity,
    read: fn(&str) -> Result<T, Fault>,
}

impl<T> Visitor<'_> for InUnits<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} such as \"{}\"", self.quantity.noun, self.quantity.example)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).map_err(|fault| told(&fault))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        Err(told(&self.quantity.bare(number)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        Err(told(&self.quantity.bare(number)))
    }
}

macro_rules! in_units {
    ($(#[$doc:meta])* $name:ident($inner:ty) = $quantity:ident, $read:path, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(InUnits { quantity: &$quantity, read: $read }).map(Self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "examples": [$quantity.example] })
            }
        }
    };
}

in_units! {
    /// A length of time, as "100 ms".
    TimeText(Span) = TIME, values::span, r"^\s*[0-9]+(\.[0-9]+)?\s*(ns|us|µs|μs|ms|s|min)\s*$"
}
in_units! {
    /// A rate, as "200 IOPS".
    RateText(Rate) = RATE, values::rate, r"^\s*[0-9]+(\.[0-9]+)?\s*(IOPS|/s)\s*$"
}
in_units! {
    /// A number of bytes, as "4 KiB".
    BytesText(u64) = BYTES, values::bytes, r"^\s*[0-9]+(\.[0-9]+)?\s*([KMGT]i?)?B\s*$"
}

/// A number of requests, in thousandths at the finest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests(pub Cost);

impl<'de> Deserialize<'de> for Requests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The shortest decimal that reads back as this number is the one that was written.
        let text = f64::deserialize(deserializer)?.to_string();
        values::requests(&text).map(Self).map_err(|fault| told(&fault))
    }
}

impl JsonSchema for Requests {
    fn schema_name() -> Cow<'static, str> {
        "Requests".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "multipleOf": 0.001 })
    }
}

/// Who gets spare capacity: `"flows"`, `"background"`, or the share of each batch that goes to the
/// background, from 0 to 1 in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpareText(pub SpareCapacity);

impl<'de> Deserialize<'de> for SpareText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = SpareText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"flows\", \"background\" or a share from 0 to 1")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SpareText, E> {
                match text {
                    "flows" => Ok(SpareText(SpareCapacity::Flows)),
                    "background" => Ok(SpareText(SpareCapacity::Background)),
                    _ => Err(E::custom(format_args!(
                        "{text:?} is not known here{REMEDY}write \"flows\", \"background\" or a share from 0 to 1"
                    ))),
                }
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<SpareText, E> {
                self.visit_f64(number as f64)
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<SpareText, E> {
                let permille =
                    parts(number, 1_000).and_then(|parts| Permille::new(u16::try_from(parts).ok()?));
                permille.map(|share| SpareText(SpareCapacity::Share(share))).ok_or_else(|| {
                    E::custom(format_args!(
                        "{number} is no share in thousandths{REMEDY}write a number from 0 to 1, as 0.25"
                    ))
                })
            }
        }
        deserializer.deserialize_any(Words)
    }
}

impl JsonSchema for SpareText {
    fn schema_name() -> Cow<'static, str> {
        "Spare".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "enum": ["flows", "background"] },
            { "type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.001 }
        ] })
    }
}

/// `number` in parts of 1/`unit`, if that is exact.
pub(super) fn parts(number: f64, unit: u32) -> Option<u64> {
    let scaled = number * f64::from(unit);
    let whole = scaled.round();
    let exact = number >= 0.0 && (scaled - whole).abs() < 1e-6 && whole <= 1e12;
    exact.then_some(whole as u64)
}

/// One of something, or a list of it.
#[derive(Clone, Debug, PartialEq)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one value or a list of them")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMany<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|one| OneOrMany(vec![one]))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<OneOrMany<T>, E> {
                T::deserialize(text.into_deserializer()).map(|one| OneOrMany(vec![one]))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<OneOrMany<T>, E> {
                T::deserialize(number.into_deserializer()).map(|one| OneOrMany(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOrMany<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMany)
            }
        }
        deserializer.deserialize_any(Either(std::marker::PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}
