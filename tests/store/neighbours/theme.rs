//! What kind of neighbour it is: which deeds are likely together.

use crate::support::numbers::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Link,
    LinkSymbolically,
    Move,
    MoveBack,
    MoveAndLink,
    Remove,
    /// The store is replaced by its copy, by another store, by a text.
    Duplicate,
    Another,
    Text,
    Side,
    PutBack,
    CopySide,
    Plant,
    PlantAtName,
    RenameFolder,
    ChangeMode,
    Shorten,
    Read,
    Kill,
    KillAll,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// A bit of everything.
    Any,
    /// Gives the store other names, and kills.
    Names,
    /// Tidies what lies beside it.
    Sides,
    /// Puts things where the store's files will be.
    Plants,
}

use Deed::{
    Another, ChangeMode, CopySide, Duplicate, Kill, KillAll, Link, LinkSymbolically, Move,
    MoveAndLink, MoveBack, Plant, PlantAtName, PutBack, Read, Remove, RenameFolder, Shorten, Side,
    Text,
};

const ANY: [Deed; 32] = [
    Link,
    Link,
    LinkSymbolically,
    Move,
    Move,
    MoveBack,
    MoveBack,
    MoveBack,
    MoveAndLink,
    Remove,
    Duplicate,
    Another,
    Another,
    Text,
    Side,
    Side,
    Side,
    Side,
    PutBack,
    CopySide,
    Plant,
    Plant,
    Plant,
    Plant,
    PlantAtName,
    RenameFolder,
    ChangeMode,
    ChangeMode,
    Shorten,
    Read,
    Kill,
    KillAll,
];
const NAMES: [Deed; 16] = [
    Link,
    Link,
    Move,
    Move,
    Move,
    MoveBack,
    MoveBack,
    MoveBack,
    MoveBack,
    MoveAndLink,
    Another,
    CopySide,
    RenameFolder,
    Kill,
    KillAll,
    KillAll,
];
const SIDES: [Deed; 8] = [Side, Side, Side, PutBack, CopySide, Read, Kill, KillAll];
const PLANTS: [Deed; 8] = [Plant, Plant, Plant, Plant, Plant, Move, MoveBack, Kill];

impl Theme {
    pub fn new(random: &mut Random) -> Self {
        [Self::Any, Self::Any, Self::Names, Self::Sides, Self::Plants][random.below(5) as usize]
    }

    pub fn draw(self, random: &mut Random) -> Deed {
        let deeds: &[Deed] = match self {
            Self::Any => &ANY,
            Self::Names => &NAMES,
            Self::Sides => &SIDES,
            Self::Plants => &PLANTS,
        };
        deeds[random.below(deeds.len() as u64) as usize]
    }
}
