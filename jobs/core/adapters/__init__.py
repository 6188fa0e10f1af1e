"""Program adapters: they turn what one run left behind into facts. The rules never see a program's own format."""
