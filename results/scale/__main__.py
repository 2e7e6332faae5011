"""Write the tables of docs/scale.md."""

from results.scale.tables import PAGE, filled

if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE)
